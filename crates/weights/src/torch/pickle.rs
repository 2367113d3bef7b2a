//! A reader of pickles that knows what checkpoints are made of, and nothing else.
//!
//! A pickle is a program for a stack machine that can call anything. This one has no calls: of the names that it can ask
//! for, a handful stand for tensors, storages and ordered maps, which become plain data here. Everything else is an error
//! that names it. Instructions are described in CPython's `Lib/pickletools.py`.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::error::PickleError;
use crate::dtype::Dtype;
use crate::gguf::Name;

/// The most instructions of a pickle. A tensor takes about forty; this also bounds the memory.
pub(super) const MAX_STEPS: usize = 1 << 20;

/// A value on the stack. Containers are numbers into [`Machine::lists`] and [`Machine::maps`].
#[derive(Copy, Clone, Debug, PartialEq)]
pub(super) enum Value<'p> {
    None,
    Bool,
    Int(i64),
    Float,
    Text(&'p str),
    /// A tuple, a list, or bytes that nobody looks at.
    List(u32),
    Map(u32),
    Global(Global),
    Storage(u32),
    Tensor(u32),
}

/// What may be asked for.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(super) enum Global {
    RebuildTensor,
    RebuildParameter,
    OrderedDict,
    Storage(Dtype),
}

impl Global {
    fn find(module: &str, name: &str) -> Option<Global> {
        Some(match (module, name) {
            ("torch._utils", "_rebuild_tensor_v2") => Global::RebuildTensor,
            ("torch._utils", "_rebuild_parameter") => Global::RebuildParameter,
            ("collections", "OrderedDict") => Global::OrderedDict,
            ("torch", name) => Global::Storage(Dtype::from_torch_storage(name)?),
            _ => return None,
        })
    }
}

/// A storage as the pickle names it.
#[derive(Copy, Clone, Debug)]
pub(super) struct Storage<'p> {
    pub(super) dtype: Dtype,
    pub(super) key: &'p str,
    pub(super) elements: i64,
}

/// A tensor as the pickle describes it; unchecked.
#[derive(Clone, Debug)]
pub(super) struct TensorView<'p> {
    pub(super) storage: Storage<'p>,
    pub(super) offset: i64,
    pub(super) shape: Vec<i64>,
    pub(super) strides: Vec<i64>,
}

/// What a pickle leaves behind.
#[derive(Debug)]
pub(super) struct Pickled<'p> {
    pub(super) root: Value<'p>,
    maps: Vec<Vec<(Value<'p>, Value<'p>)>>,
    tensors: Vec<TensorView<'p>>,
}

impl<'p> Pickled<'p> {
    /// The pairs of a map.
    pub(super) fn map(&self, value: Value<'p>) -> Option<&[(Value<'p>, Value<'p>)]> {
        match value {
            Value::Map(index) => self.maps.get(index as usize).map(Vec::as_slice),
            _ => None,
        }
    }

    /// The tensor that a value is.
    pub(super) fn tensor(&self, value: Value<'p>) -> Option<&TensorView<'p>> {
        match value {
            Value::Tensor(index) => self.tensors.get(index as usize),
            _ => None,
        }
    }
}

/// Reads a pickle.
pub(super) fn read(pickle: &[u8]) -> Result<Pickled<'_>, PickleError> {
    let mut machine = Machine {
        bytes: pickle,
        at: 0,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: BTreeMap::new(),
        lists: Vec::new(),
        maps: Vec::new(),
        storages: Vec::new(),
        tensors: Vec::new(),
    };
    for _ in 0..MAX_STEPS {
        if let Some(root) = machine.step()? {
            return Ok(Pickled {
                root,
                maps: machine.maps,
                tensors: machine.tensors,
            });
        }
    }
    Err(PickleError::TooLong)
}

struct Machine<'p> {
    bytes: &'p [u8],
    at: usize,
    stack: Vec<Value<'p>>,
    /// Heights of the stack.
    marks: Vec<usize>,
    memo: BTreeMap<u32, Value<'p>>,
    lists: Vec<Vec<Value<'p>>>,
    maps: Vec<Vec<(Value<'p>, Value<'p>)>>,
    storages: Vec<Storage<'p>>,
    tensors: Vec<TensorView<'p>>,
}

impl<'p> Machine<'p> {
    fn offset(&self) -> u64 {
        self.at as u64
    }

    fn take(&mut self, len: u64) -> Result<&'p [u8], PickleError> {
        let offset = self.offset();
        let end = usize::try_from(len)
            .ok()
            .and_then(|len| self.at.checked_add(len));
        let taken = end.and_then(|end| self.bytes.get(self.at..end));
        let bytes = taken.ok_or(PickleError::Truncated { offset })?;
        self.at += bytes.len();
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], PickleError> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N as u64)?);
        Ok(out)
    }

    fn text(&mut self, len: u64) -> Result<&'p str, PickleError> {
        let offset = self.offset();
        let bytes = self.take(len)?;
        core::str::from_utf8(bytes).map_err(|_| PickleError::NotUtf8 { offset })
    }

    /// Up to a line feed.
    fn line(&mut self) -> Result<&'p str, PickleError> {
        let rest = self.bytes.get(self.at..).unwrap_or(&[]);
        let len = rest.iter().position(|&byte| byte == b'\n');
        let len = len.ok_or(PickleError::Truncated {
            offset: self.offset(),
        })?;
        let line = self.text(len as u64)?;
        self.at += 1;
        Ok(line)
    }

    fn bad_stack(&self) -> PickleError {
        PickleError::Stack {
            offset: self.offset(),
        }
    }

    fn bad_call(&self) -> PickleError {
        PickleError::Call {
            offset: self.offset(),
        }
    }

    fn pop(&mut self) -> Result<Value<'p>, PickleError> {
        let floor = self.marks.last().copied().unwrap_or(0);
        if self.stack.len() <= floor {
            return Err(self.bad_stack());
        }
        self.stack.pop().ok_or_else(|| self.bad_stack())
    }

    fn top(&self) -> Result<Value<'p>, PickleError> {
        self.stack.last().copied().ok_or_else(|| self.bad_stack())
    }

    fn pop_mark(&mut self) -> Result<Vec<Value<'p>>, PickleError> {
        let height = self.marks.pop().ok_or_else(|| self.bad_stack())?;
        Ok(self.stack.split_off(height.min(self.stack.len())))
    }

    fn new_list(&mut self, items: Vec<Value<'p>>) {
        self.stack.push(Value::List(self.lists.len() as u32));
        self.lists.push(items);
    }

    fn new_map(&mut self) {
        self.stack.push(Value::Map(self.maps.len() as u32));
        self.maps.push(Vec::new());
    }

    fn tuple_of(&mut self, count: usize) -> Result<(), PickleError> {
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            items.push(self.pop()?);
        }
        items.reverse();
        self.new_list(items);
        Ok(())
    }

    fn put(&mut self, key: u32) -> Result<(), PickleError> {
        let top = self.top()?;
        self.memo.insert(key, top);
        Ok(())
    }

    fn get(&mut self, key: u32) -> Result<(), PickleError> {
        let offset = self.offset();
        let value = self.memo.get(&key).ok_or(PickleError::Memo { offset })?;
        self.stack.push(*value);
        Ok(())
    }

    fn list_mut(&mut self, value: Value<'p>) -> Result<&mut Vec<Value<'p>>, PickleError> {
        let bad = self.bad_stack();
        match value {
            Value::List(index) => self.lists.get_mut(index as usize).ok_or(bad),
            _ => Err(bad),
        }
    }

    fn list(&self, value: Value<'p>) -> Option<&[Value<'p>]> {
        match value {
            Value::List(index) => self.lists.get(index as usize).map(Vec::as_slice),
            _ => None,
        }
    }

    fn set_items(&mut self, items: &[Value<'p>]) -> Result<(), PickleError> {
        let bad = self.bad_stack();
        let (pairs, []) = items.as_chunks::<2>() else {
            return Err(bad);
        };
        match self.top()? {
            Value::Map(index) => {
                let map = self.maps.get_mut(index as usize).ok_or(bad)?;
                map.extend(pairs.iter().map(|&[key, value]| (key, value)));
                Ok(())
            }
            _ => Err(bad),
        }
    }

    /// Does one instruction; the result, if it was the last.
    fn step(&mut self) -> Result<Option<Value<'p>>, PickleError> {
        let offset = self.offset();
        let [opcode] = self.array()?;
        match opcode {
            // PROTO, FRAME: numbers for other readers.
            0x80 => _ = self.take(1)?,
            0x95 => _ = self.take(8)?,
            b'.' => return self.pop().map(Some),
            b'(' => self.marks.push(self.stack.len()),
            b'0' => _ = self.pop()?,
            b'N' => self.stack.push(Value::None),
            0x88 | 0x89 => self.stack.push(Value::Bool),
            b'J' => {
                let value = i32::from_le_bytes(self.array()?);
                self.stack.push(Value::Int(value.into()));
            }
            b'K' => {
                let [value] = self.array()?;
                self.stack.push(Value::Int(value.into()));
            }
            b'M' => {
                let value = u16::from_le_bytes(self.array()?);
                self.stack.push(Value::Int(value.into()));
            }
            0x8a => self.long()?,
            b'G' => {
                self.take(8)?;
                self.stack.push(Value::Float);
            }
            b'X' => {
                let len = u32::from_le_bytes(self.array()?);
                self.push_text(len.into())?;
            }
            0x8c | b'U' => {
                let [len] = self.array()?;
                self.push_text(len.into())?;
            }
            0x8d => {
                let len = u64::from_le_bytes(self.array()?);
                self.push_text(len)?;
            }
            b')' | b']' => self.new_list(Vec::new()),
            b't' | b'l' => {
                let items = self.pop_mark()?;
                self.new_list(items);
            }
            0x85..=0x87 => self.tuple_of(usize::from(opcode - 0x84))?,
            b'a' => {
                let item = self.pop()?;
                let list = self.top()?;
                self.list_mut(list)?.push(item);
            }
            b'e' => {
                let items = self.pop_mark()?;
                let list = self.top()?;
                self.list_mut(list)?.extend(items);
            }
            b'}' => self.new_map(),
            b's' => {
                let value = self.pop()?;
                let key = self.pop()?;
                self.set_items(&[key, value])?;
            }
            b'u' => {
                let items = self.pop_mark()?;
                self.set_items(&items)?;
            }
            b'q' => {
                let [key] = self.array()?;
                self.put(key.into())?;
            }
            b'r' => {
                let key = u32::from_le_bytes(self.array()?);
                self.put(key)?;
            }
            0x94 => self.put(self.memo.len() as u32)?,
            b'h' => {
                let [key] = self.array()?;
                self.get(key.into())?;
            }
            b'j' => {
                let key = u32::from_le_bytes(self.array()?);
                self.get(key)?;
            }
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                self.global(offset, module, name)?;
            }
            0x93 => match (self.pop()?, self.pop()?) {
                (Value::Text(name), Value::Text(module)) => self.global(offset, module, name)?,
                _ => return Err(self.bad_stack()),
            },
            b'Q' => self.storage()?,
            b'R' => self.reduce()?,
            b'b' => self.build()?,
            _ => return Err(PickleError::Opcode { offset, opcode }),
        }
        Ok(None)
    }

    fn push_text(&mut self, len: u64) -> Result<(), PickleError> {
        let text = self.text(len)?;
        self.stack.push(Value::Text(text));
        Ok(())
    }

    /// An integer of as many bytes as it says, two's complement.
    fn long(&mut self) -> Result<(), PickleError> {
        let offset = self.offset();
        let [len] = self.array()?;
        let bytes = self.take(len.into())?;
        let negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
        let mut value = [if negative { 0xff } else { 0 }; 8];
        let room = value.get_mut(..bytes.len());
        room.ok_or(PickleError::Integer { offset })?
            .copy_from_slice(bytes);
        self.stack.push(Value::Int(i64::from_le_bytes(value)));
        Ok(())
    }

    fn global(&mut self, offset: u64, module: &str, name: &str) -> Result<(), PickleError> {
        let global = Global::find(module, name).ok_or_else(|| PickleError::Global {
            offset,
            module: Name::new(module),
            name: Name::new(name),
        })?;
        self.stack.push(Value::Global(global));
        Ok(())
    }

    /// A persistent id: ("storage", type, key, device, elements).
    fn storage(&mut self) -> Result<(), PickleError> {
        let id = self.pop()?;
        let storage = match self.list(id) {
            Some(
                &[
                    Value::Text("storage"),
                    Value::Global(Global::Storage(dtype)),
                    Value::Text(key),
                    _,
                    Value::Int(elements),
                ],
            ) => Storage {
                dtype,
                key,
                elements,
            },
            _ => return Err(self.bad_call()),
        };
        self.stack.push(Value::Storage(self.storages.len() as u32));
        self.storages.push(storage);
        Ok(())
    }

    fn reduce(&mut self) -> Result<(), PickleError> {
        let arguments = self.pop()?;
        let callee = self.pop()?;
        let bad = self.bad_call();
        let Some(arguments) = self.list(arguments) else {
            return Err(bad);
        };
        match (callee, arguments) {
            (Value::Global(Global::OrderedDict), []) => self.new_map(),
            (Value::Global(Global::RebuildParameter), &[Value::Tensor(index), ..]) => {
                self.stack.push(Value::Tensor(index));
            }
            (
                Value::Global(Global::RebuildTensor),
                &[
                    Value::Storage(storage),
                    Value::Int(offset),
                    shape,
                    strides,
                    ..,
                ],
            ) => {
                let storage = self.storages.get(storage as usize).copied();
                let (Some(storage), Some(shape), Some(strides)) =
                    (storage, self.integers(shape), self.integers(strides))
                else {
                    return Err(bad);
                };
                self.stack.push(Value::Tensor(self.tensors.len() as u32));
                self.tensors.push(TensorView {
                    storage,
                    offset,
                    shape,
                    strides,
                });
            }
            _ => return Err(bad),
        }
        Ok(())
    }

    fn integers(&self, value: Value<'p>) -> Option<Vec<i64>> {
        let items = self.list(value)?;
        // More than this are refused later; here they must not be copied over and over.
        if items.len() > crate::checkpoint_tensor::MAX_DIMS {
            return None;
        }
        items
            .iter()
            .map(|item| match item {
                Value::Int(value) => Some(*value),
                _ => None,
            })
            .collect()
    }

    /// Attributes of an object. An ordered map's are notes about versions, which change nothing.
    fn build(&mut self) -> Result<(), PickleError> {
        self.pop()?;
        match self.top()? {
            Value::Map(_) => Ok(()),
            _ => Err(self.bad_call()),
        }
    }
}
