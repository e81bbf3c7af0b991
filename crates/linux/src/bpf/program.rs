//! Programs, maps and links of bpf(2), each a file descriptor of this process.

#![allow(unsafe_code)] // neither libc nor nix has bpf(2)

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};

use super::asm::Instruction;
use crate::error::Error;

const BPF_MAP_CREATE: u32 = 0;
const BPF_MAP_LOOKUP_ELEM: u32 = 1;
const BPF_MAP_UPDATE_ELEM: u32 = 2;
const BPF_MAP_DELETE_ELEM: u32 = 3;
const BPF_PROG_LOAD: u32 = 5;
const BPF_PROG_TEST_RUN: u32 = 10;
const BPF_OBJ_GET_INFO_BY_FD: u32 = 15;
const BPF_MAP_LOOKUP_BATCH: u32 = 24;
const BPF_LINK_CREATE: u32 = 28;

const BPF_MAP_TYPE_HASH: u32 = 1;
const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_F_MMAPABLE: u32 = 1 << 10;
const BPF_MAP_TYPE_LRU_HASH: u32 = 9;
const BPF_PROG_TYPE_SCHED_CLS: u32 = 3;
const BPF_TCX_INGRESS: u32 = 46;
const BPF_TCX_EGRESS: u32 = 47;
const BPF_NOEXIST: u64 = 1;

/// Licence of the program for the kernel, which lets only GPL programs call some functions.
const LICENCE: &std::ffi::CStr = c"MIT OR Apache-2.0";
/// Size of the verifier's log, in bytes.
const LOG_BYTES: usize = 64 << 10;
/// Words that hold `struct __sk_buff` of any kernel, and the places of two fields in it.
const CONTEXT_WORDS: usize = 64;
const PRIORITY_WORD: usize = 8;
const TIME_WORD: usize = 38;
/// Bytes that a test run may add to a packet.
const TEST_HEADROOM_BYTES: usize = 256;

/// Calls bpf(2) with the part of `union bpf_attr` that a command uses.
///
/// # Safety
/// Addresses in `attributes` must be those of memory that lives and is as large as the command expects.
unsafe fn bpf<T>(command: u32, attributes: &mut T) -> io::Result<i32> {
    // SAFETY: the kernel reads and writes at most the given size of `attributes`; the rest is the caller's promise.
    let done =
        unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attributes, size_of::<T>()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(done as i32) }
}

/// Takes the file descriptor that a command returned.
fn owned(fd: i32) -> OwnedFd {
    // SAFETY: the kernel has just made it for this call, and nothing else owns it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Converts a refusal of bpf(2) to an error that names the missing permission or feature.
fn refused(what: &str, source: io::Error) -> Error {
    match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => Error::Missing {
            what: format!(
                "permission for {what} (CAP_BPF and CAP_NET_ADMIN, or a filter of system calls)"
            ),
            hint: "run as root; a container or a service manager may refuse bpf(2)".into(),
        },
        Some(libc::ENOSYS) => Error::Missing {
            what: format!("bpf(2), for {what}"),
            hint: "use a kernel with CONFIG_BPF_SYSCALL".into(),
        },
        _ => Error::Kernel { what: what.to_owned(), source, message: None },
    }
}

/// A hash map from `K` to `V` bytes, shared with programs.
#[derive(Debug)]
pub struct Map<const K: usize, const V: usize> {
    fd: OwnedFd,
}

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    kind: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct Element {
    fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct Batch {
    first: u64,
    next: u64,
    keys: u64,
    values: u64,
    count: u32,
    fd: u32,
    element_flags: u64,
    flags: u64,
}

impl<const K: usize, const V: usize> Map<K, V> {
    /// Creates a map of at most `entries`.
    ///
    /// # Errors
    /// [`Error::Missing`] if bpf(2) is refused or absent.
    pub fn create(entries: u32) -> Result<Self, Error> {
        Self::of_kind(BPF_MAP_TYPE_HASH, entries)
    }

    /// Creates a map of about `entries` that drops the least recently used one for a new one.
    ///
    /// # Errors
    /// As [`Map::create`].
    pub fn create_lru(entries: u32) -> Result<Self, Error> {
        Self::of_kind(BPF_MAP_TYPE_LRU_HASH, entries)
    }

    fn of_kind(kind: u32, entries: u32) -> Result<Self, Error> {
        let mut create = MapCreate {
            kind,
            key_size: K as u32,
            value_size: V as u32,
            max_entries: entries,
            flags: 0,
        };
        // SAFETY: no addresses.
        let fd = unsafe { bpf(BPF_MAP_CREATE, &mut create) };
        fd.map(|fd| Map { fd: owned(fd) }).map_err(|e| refused("creating a BPF map", e))
    }

    /// Returns a value, `None` without the key.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn get(&self, key: &[u8; K]) -> io::Result<Option<[u8; V]>> {
        let mut value = [0; V];
        let mut element = self.element(key, &raw mut value as u64, 0);
        // SAFETY: key and value live, with the sizes with which the map was made.
        match unsafe { bpf(BPF_MAP_LOOKUP_ELEM, &mut element) } {
            Ok(_) => Ok(Some(value)),
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Returns at most `most` keys with their values (Linux 5.6).
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn all(&self, most: u32) -> io::Result<Vec<([u8; K], [u8; V])>> {
        let mut keys = vec![[0; K]; most as usize];
        let mut values = vec![[0; V]; most as usize];
        let mut next = 0_u32;
        let mut batch = Batch {
            next: &raw mut next as u64,
            keys: keys.as_mut_ptr() as u64,
            values: values.as_mut_ptr() as u64,
            count: most,
            fd: self.fd() as u32,
            ..Batch::default()
        };
        // SAFETY: keys and values live, with room for `count`; a hash map's position has four bytes.
        match unsafe { bpf(BPF_MAP_LOOKUP_BATCH, &mut batch) } {
            Ok(_) => {}
            // The end of the map, or a bucket for which there is no room: those before it are there.
            Err(e) if matches!(e.raw_os_error(), Some(libc::ENOENT | libc::ENOSPC)) => {}
            Err(e) => return Err(e),
        }
        let found = (batch.count as usize).min(keys.len());
        Ok(keys.into_iter().zip(values).take(found).collect())
    }

    /// Sets a value.
    ///
    /// # Errors
    /// The map is full (`E2BIG`), or another refusal of the kernel.
    pub fn put(&self, key: &[u8; K], value: &[u8; V]) -> io::Result<()> {
        let mut element = self.element(key, value.as_ptr() as u64, 0);
        // SAFETY: as in `get`; the kernel only reads.
        unsafe { bpf(BPF_MAP_UPDATE_ELEM, &mut element) }.map(drop)
    }

    /// Sets a value unless the key has one.
    ///
    /// # Errors
    /// As [`Map::put`].
    pub fn put_new(&self, key: &[u8; K], value: &[u8; V]) -> io::Result<()> {
        let mut element = self.element(key, value.as_ptr() as u64, BPF_NOEXIST);
        // SAFETY: as in `put`.
        match unsafe { bpf(BPF_MAP_UPDATE_ELEM, &mut element) } {
            Err(e) if e.raw_os_error() != Some(libc::EEXIST) => Err(e),
            _ => Ok(()),
        }
    }

    /// Removes a key, if it is there.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn delete(&self, key: &[u8; K]) -> io::Result<()> {
        let mut element = self.element(key, 0, 0);
        // SAFETY: the key lives, with the size with which the map was made.
        match unsafe { bpf(BPF_MAP_DELETE_ELEM, &mut element) } {
            Err(e) if e.raw_os_error() != Some(libc::ENOENT) => Err(e),
            _ => Ok(()),
        }
    }

    /// Returns the file descriptor, for [`super::asm::Assembler::map`].
    pub fn fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    fn element(&self, key: &[u8; K], value: u64, flags: u64) -> Element {
        Element { fd: self.fd() as u32, padding: 0, key: key.as_ptr() as u64, value, flags }
    }
}

/// An array of records of `W` 64-bit words, in memory shared with programs (Linux 5.5).
///
/// Reading and writing a word is one access to memory on 64-bit machines.
#[derive(Debug)]
pub struct Array<const W: usize> {
    fd: OwnedFd,
    words: NonNull<u64>,
    records: usize,
}

// SAFETY: the memory is that of the map, which no thread owns, and all accesses are volatile.
unsafe impl<const W: usize> Send for Array<W> {}

impl<const W: usize> Array<W> {
    const RECORD: usize = W * size_of::<u64>();

    /// Creates an array of records of zeros.
    ///
    /// # Errors
    /// [`Error::Missing`] if bpf(2) is refused or absent, or on a 32-bit machine.
    pub fn create(records: u32) -> Result<Self, Error> {
        let what = "creating a BPF array";
        if cfg!(not(target_pointer_width = "64")) {
            return Err(Error::Missing {
                what: "a 64-bit machine, for words shared with a BPF program".into(),
                hint: "use HTB".into(),
            });
        }
        let mut create = MapCreate {
            kind: BPF_MAP_TYPE_ARRAY,
            key_size: size_of::<u32>() as u32,
            value_size: Self::RECORD as u32,
            max_entries: records,
            flags: BPF_F_MMAPABLE,
        };
        // SAFETY: no addresses.
        let fd = unsafe { bpf(BPF_MAP_CREATE, &mut create) }.map_err(|e| refused(what, e))?;
        let (fd, records) = (owned(fd), records as usize);
        let (length, access) = (records * Self::RECORD, libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let words = unsafe {
            libc::mmap(ptr::null_mut(), length, access, libc::MAP_SHARED, fd.as_raw_fd(), 0)
        };
        match NonNull::new(words.cast::<u64>()) {
            Some(place) if words != libc::MAP_FAILED => Ok(Array { fd, words: place, records }),
            _ => Err(refused(what, io::Error::last_os_error())),
        }
    }

    /// Reads a word of a record.
    ///
    /// # Panics
    /// There is no such word.
    pub fn load(&self, record: usize, word: usize) -> u64 {
        // SAFETY: the address is within the mapping and aligned.
        unsafe { self.address(record, word).read_volatile() }
    }

    /// Writes a word of a record.
    ///
    /// # Panics
    /// There is no such word.
    pub fn store(&self, record: usize, word: usize, value: u64) {
        // SAFETY: the address is within the mapping and aligned.
        unsafe { self.address(record, word).write_volatile(value) }
    }

    /// Returns the file descriptor, for [`super::asm::Assembler::map`].
    pub fn fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    fn address(&self, record: usize, word: usize) -> *mut u64 {
        assert!(record < self.records && word < W, "word {word} of record {record}");
        // SAFETY: within the mapping.
        unsafe { self.words.as_ptr().add(record * W + word) }
    }
}

impl<const W: usize> Drop for Array<W> {
    fn drop(&mut self) {
        // SAFETY: the mapping of `create`, which nothing uses any more.
        unsafe { libc::munmap(self.words.as_ptr().cast(), self.records * Self::RECORD) };
    }
}

/// A loaded program for an interface's traffic (`BPF_PROG_TYPE_SCHED_CLS`).
#[derive(Debug)]
pub struct Program {
    fd: OwnedFd,
}

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    kind: u32,
    instructions: u32,
    code: u64,
    licence: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
}

#[repr(C)]
#[derive(Default)]
struct RunTest {
    fd: u32,
    verdict: u32,
    size_in: u32,
    size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    // Without these the size would be padded in C, but not defined.
    context_in_size: u32,
    context_out_size: u32,
    context_in: u64,
    context_out: u64,
}

/// Result of [`Program::test_run`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TestRun {
    /// The program's result: a `TC_ACT_…`.
    pub verdict: i32,
    /// The packet after the last run.
    pub packet: Vec<u8>,
    /// The packet's priority.
    pub priority: u32,
    /// The packet's departure time, in ns of the monotonic clock; 0 without one.
    pub departure: u64,
    /// Mean duration of a run, in ns.
    pub nanos: u32,
}

impl Program {
    /// Loads a program; `name` has at most 15 letters, digits, `_` or `.`.
    ///
    /// # Errors
    /// [`Error::Missing`] if bpf(2) is refused or absent; [`Error::Verifier`] if the kernel refuses the program.
    pub fn load(name: &str, code: &[Instruction]) -> Result<Self, Error> {
        let mut load = ProgLoad {
            kind: BPF_PROG_TYPE_SCHED_CLS,
            instructions: code.len() as u32,
            code: code.as_ptr() as u64,
            licence: LICENCE.as_ptr() as u64,
            ..ProgLoad::default()
        };
        for (to, from) in load.name[..15].iter_mut().zip(name.bytes()) {
            *to = from;
        }
        // SAFETY: code and licence live; there is no log.
        let first = match unsafe { bpf(BPF_PROG_LOAD, &mut load) } {
            Ok(fd) => return Ok(Program { fd: owned(fd) }),
            Err(e) => e,
        };
        if matches!(first.raw_os_error(), Some(libc::EPERM | libc::ENOSYS)) {
            return Err(refused("loading a BPF program", first));
        }
        let mut log = vec![0; LOG_BYTES];
        load.log_level = 1;
        load.log_size = LOG_BYTES as u32;
        load.log = log.as_mut_ptr() as u64;
        // SAFETY: as before, and the log lives and has the given size.
        match unsafe { bpf(BPF_PROG_LOAD, &mut load) } {
            Ok(fd) => Ok(Program { fd: owned(fd) }),
            Err(source) => {
                let end = log.iter().position(|b| *b == 0).unwrap_or(log.len());
                let log = String::from_utf8_lossy(&log[..end]).trim_end().to_owned();
                Err(Error::Verifier { source, log })
            }
        }
    }

    /// Runs the program `repeat` times on one packet, attached to nothing.
    ///
    /// The packet is that of the previous run from the second on. It begins with an Ethernet header and has at least
    /// one byte more.
    ///
    /// # Errors
    /// The kernel's refusal, for example of a shorter packet (`EINVAL`).
    pub fn test_run(&self, packet: &[u8], repeat: u32) -> Result<TestRun, Error> {
        self.test_run_as(packet, 0, repeat)
    }

    /// Runs the program as [`Program::test_run`] does, on a packet with this priority.
    ///
    /// # Errors
    /// As [`Program::test_run`].
    pub fn test_run_as(&self, packet: &[u8], priority: u32, repeat: u32) -> Result<TestRun, Error> {
        let mut context = [0_u32; CONTEXT_WORDS];
        context[PRIORITY_WORD] = priority;
        let mut out = vec![0; packet.len() + TEST_HEADROOM_BYTES];
        let mut test = RunTest {
            fd: self.fd() as u32,
            size_in: packet.len() as u32,
            size_out: out.len() as u32,
            data_in: packet.as_ptr() as u64,
            data_out: out.as_mut_ptr() as u64,
            repeat,
            context_in_size: size_of_val(&context) as u32,
            context_out_size: size_of_val(&context) as u32,
            context_in: context.as_ptr() as u64,
            context_out: context.as_mut_ptr() as u64,
            ..RunTest::default()
        };
        // SAFETY: both packets and the context live and have the given sizes.
        unsafe { bpf(BPF_PROG_TEST_RUN, &mut test) }
            .map_err(|e| refused("running a BPF program", e))?;
        out.truncate(test.size_out as usize);
        let departure = u64::from(context[TIME_WORD]) | u64::from(context[TIME_WORD + 1]) << 32;
        Ok(TestRun {
            verdict: test.verdict as i32,
            packet: out,
            priority: context[PRIORITY_WORD],
            departure,
            nanos: test.duration,
        })
    }

    /// Returns the file descriptor, for a filter of `tc`.
    pub fn fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }
}

/// A program at an interface by TCX (Linux 6.6); it ends with this value.
#[derive(Debug)]
pub(crate) struct TcxLink {
    fd: OwnedFd,
}

#[repr(C)]
#[derive(Default)]
struct LinkCreate {
    program: u32,
    index: u32,
    attach_type: u32,
    flags: u32,
    relative: u32,
    padding: u32,
    expected_revision: u64,
}

#[repr(C)]
#[derive(Default)]
struct Info {
    fd: u32,
    size: u32,
    info: u64,
}

/// `struct bpf_link_info` of a TCX link.
#[repr(C)]
#[derive(Default)]
struct LinkInfo {
    kind: u32,
    id: u32,
    program: u32,
    padding: u32,
    index: u32,
    attach_type: u32,
}

impl TcxLink {
    /// Attaches a program after those that are there; `None` if this kernel has no TCX.
    pub fn attach(program: &Program, index: u32, ingress: bool) -> Result<Option<Self>, Error> {
        let mut create = LinkCreate {
            program: program.fd() as u32,
            index,
            attach_type: if ingress { BPF_TCX_INGRESS } else { BPF_TCX_EGRESS },
            ..LinkCreate::default()
        };
        // SAFETY: no addresses.
        match unsafe { bpf(BPF_LINK_CREATE, &mut create) } {
            Ok(fd) => Ok(Some(TcxLink { fd: owned(fd) })),
            Err(e) if matches!(e.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP)) => Ok(None),
            Err(e) => Err(refused("attaching a BPF program", e)),
        }
    }

    /// Returns the index of the interface, `None` if it is gone.
    pub fn index(&self) -> Result<Option<u32>, Error> {
        let mut link = LinkInfo::default();
        let mut info = Info {
            fd: self.fd.as_raw_fd() as u32,
            size: size_of::<LinkInfo>() as u32,
            info: &raw mut link as u64,
        };
        // SAFETY: the information lives and has the given size.
        unsafe { bpf(BPF_OBJ_GET_INFO_BY_FD, &mut info) }
            .map_err(|e| refused("reading a BPF link", e))?;
        Ok((link.index != 0).then_some(link.index))
    }
}

#[cfg(test)]
mod tests {
    use super::super::asm::{Assembler, Reg};
    use super::*;

    #[test]
    fn a_refusal_names_permission_or_feature() {
        let text = |errno| refused("loading", io::Error::from_raw_os_error(errno)).to_string();
        assert!(text(libc::EPERM).contains("CAP_BPF"), "{}", text(libc::EPERM));
        assert!(text(libc::ENOSYS).contains("CONFIG_BPF_SYSCALL"), "{}", text(libc::ENOSYS));
    }

    #[test]
    fn the_verifiers_reason_is_in_the_error() {
        let mut a = Assembler::new();
        a.set(Reg::R0, Reg::R5);
        a.exit();
        match Program::load("bad", &a.finish().unwrap()) {
            Err(e @ Error::Verifier { .. }) => {
                assert!(e.to_string().contains("R5 !read_ok"), "{e}");
            }
            // Without privileges or without BPF.
            Err(Error::Missing { .. }) if !nix::unistd::geteuid().is_root() => {}
            other => panic!("{other:?}"),
        }
    }
}
