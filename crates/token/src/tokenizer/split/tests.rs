//! Tests of the splitters.
