//! Chat templates: an interpreter for the Jinja that published templates use.
