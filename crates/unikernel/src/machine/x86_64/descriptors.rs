//! Segments, gates and the task state, as the processor reads them (Intel SDM volume 3, chapters 3, 7 and 8).

/// The selector of the code segment.
pub const CODE: u16 = 8;
/// The selector of the data segment.
pub const DATA: u16 = 16;
/// The selector of the task state.
pub const TASK: u16 = 24;

/// The stack of ordinary interrupts and exceptions, as a gate names it.
pub const ORDINARY: u8 = 1;
/// The stack of those that may interrupt the others: non-maskable interrupt, double fault, machine check.
pub const SEVERE: u8 = 2;

/// A 64-bit task state segment, of which only the interrupt stacks are used.
#[derive(Copy, Clone, Debug)]
#[repr(C, packed(4))]
pub struct TaskState {
    reserved_0: u32,
    privileged_stacks: [u64; 3],
    reserved_1: u64,
    interrupt_stacks: [u64; 7],
    reserved_2: u64,
    reserved_3: u16,
    port_map: u16,
}

impl TaskState {
    /// With the tops of the two interrupt stacks.
    pub const fn new(ordinary: u64, severe: u64) -> Self {
        Self {
            reserved_0: 0,
            privileged_stacks: [0; 3],
            reserved_1: 0,
            interrupt_stacks: [ordinary, severe, 0, 0, 0, 0, 0],
            reserved_2: 0,
            reserved_3: 0,
            // Past the end: there is none.
            port_map: size_of::<Self>() as u16,
        }
    }
}

/// The global descriptor table: nothing, code, data, and the task state at an address, which takes two entries.
pub const fn segments(task_state: u64) -> [u64; 5] {
    let limit = size_of::<TaskState>() as u64 - 1;
    let low = limit | (task_state & 0xff_ffff) << 16 | 0x89 << 40 | (task_state >> 24 & 0xff) << 56;
    [
        0,
        0x00af_9b00_0000_ffff,
        0x00cf_9300_0000_ffff,
        low,
        task_state >> 32,
    ]
}

/// An interrupt gate to a handler, on one of the interrupt stacks.
pub const fn gate(handler: u64, stack: u8) -> [u64; 2] {
    let low = handler & 0xffff
        | (CODE as u64) << 16
        | (stack as u64) << 32
        | 0x8e << 40
        | (handler >> 16 & 0xffff) << 48;
    [low, handler >> 32]
}

/// The stack that a vector's handler runs on. Never the interrupted one: below its pointer there may be live data.
pub const fn stack_of(vector: u8) -> u8 {
    match vector {
        2 | 8 | 18 => SEVERE,
        _ => ORDINARY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_are_as_the_manual_says() {
        assert_eq!(size_of::<TaskState>(), 104);
        let address = 0xfedc_ba98_7654_3210;
        let table = segments(address);
        assert_eq!(table[3], 0x7600_8954_3210_0067);
        assert_eq!(table[4], 0xfedc_ba98);
        assert_eq!(gate(address, SEVERE), [0x7654_8e02_0008_3210, 0xfedc_ba98]);
    }

    #[test]
    fn no_vector_runs_on_the_interrupted_stack() {
        assert!((0..=255).all(|vector| stack_of(vector) != 0));
        assert_eq!([2, 8, 18].map(stack_of), [SEVERE; 3]);
    }
}
