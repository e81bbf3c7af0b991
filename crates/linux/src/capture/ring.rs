//! Ring buffer that the kernel writes packets to (TPACKET_V3).
//!
//! Blocks are used in turn; each is handed over when it is full or after a timeout. Source:
//! Documentation/networking/packet_mmap.rst.

#![allow(unsafe_code)] // memory shared with the kernel

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

use super::SocketCounters;

/// Bytes of a block: a whole number of pages wherever Linux has pages of at most 64 KB.
const BLOCK_BYTES: usize = 1 << 16;
/// Timeout of a block that is not full, in ms.
const BLOCK_TIMEOUT_MS: u32 = 50;
const MIN_BLOCKS: usize = 2;

/// A packet in the ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet<'a> {
    /// Captured first bytes.
    pub bytes: &'a [u8],
    /// Length on the interface, in bytes.
    pub length: u32,
    /// True if this machine sent it.
    pub outgoing: bool,
    /// Time of capture by the system's clock, since 1970.
    pub at: Duration,
}

#[derive(Debug)]
pub(super) struct Ring {
    memory: NonNull<u8>,
    blocks: usize,
    next: usize,
}

// SAFETY: the memory belongs to this ring alone, and the kernel does not depend on the thread that reads it.
unsafe impl Send for Ring {}

impl Ring {
    /// Creates the ring of a socket, of `bytes` bytes, for the first `snap` bytes of packets.
    pub fn new(socket: &OwnedFd, bytes: usize, snap: u32) -> io::Result<Self> {
        let version = libc::tpacket_versions::TPACKET_V3 as libc::c_int;
        set(socket, libc::PACKET_VERSION, &version)?;
        let blocks = (bytes / BLOCK_BYTES).max(MIN_BLOCKS);
        // Packets lie one after the other. The frame size only limits the captured bytes of one packet, including the
        // headers of the ring and the room before the packet (68 and 16 bytes).
        let frame = (snap as usize + 128).next_multiple_of(libc::TPACKET_ALIGNMENT);
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK_BYTES as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: frame as u32,
            tp_frame_nr: (BLOCK_BYTES / frame * blocks) as u32,
            tp_retire_blk_tov: BLOCK_TIMEOUT_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set(socket, libc::PACKET_RX_RING, &request)?;
        let length = NonZeroUsize::new(blocks * BLOCK_BYTES).ok_or(io::ErrorKind::InvalidInput)?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping of the ring just made, of its length.
        let memory = unsafe { mmap(None, length, access, MapFlags::MAP_SHARED, socket, 0) }?;
        Ok(Ring { memory: memory.cast(), blocks, next: 0 })
    }

    fn block_header(&self) -> NonNull<libc::tpacket_hdr_v1> {
        // SAFETY: `next` is below `blocks`, so both offsets are within the mapping; the header's union has one member.
        unsafe {
            let block = self.memory.add(self.next * BLOCK_BYTES).cast::<libc::tpacket_block_desc>();
            NonNull::from(&mut (*block.as_ptr()).hdr.bh1)
        }
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: an aligned word of the mapping, which lives as long as `self`; the kernel writes it whole.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.block_header().as_ptr()).block_status) }
    }

    /// True if the kernel has handed over the next block.
    pub fn is_ready(&self) -> bool {
        self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// Passes the packets of the next block to `take` and returns the block to the kernel.
    ///
    /// Returns the number of packets; `None` if no block is ready.
    pub fn block(&mut self, mut take: impl FnMut(Packet<'_>)) -> Option<usize> {
        if !self.is_ready() {
            return None;
        }
        let header = self.block_header();
        // SAFETY: user space owns the block until its status changes, so the kernel does not write to it meanwhile.
        let (bytes, header) = unsafe {
            let start = self.memory.add(self.next * BLOCK_BYTES).as_ptr();
            (core::slice::from_raw_parts(start, BLOCK_BYTES), header.read())
        };
        let mut at = header.offset_to_first_pkt as usize;
        for _ in 0..header.num_pkts {
            let Some((packet, next)) = packet(bytes, at) else { break };
            if let Some(packet) = packet {
                take(packet);
            }
            at = next;
        }
        fence(Ordering::SeqCst);
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.blocks;
        Some(header.num_pkts as usize)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` made, with no borrows left.
        let _ = unsafe { munmap(self.memory.cast(), self.blocks * BLOCK_BYTES) };
    }
}

/// Returns the packet at an offset of a block, and the offset of the next one.
///
/// Nothing outside the block is read, whatever values the block has.
fn packet(block: &[u8], at: usize) -> Option<(Option<Packet<'_>>, usize)> {
    let word = |i: usize| {
        let four = block.get(at.checked_add(i)?..)?.first_chunk()?;
        Some(u32::from_ne_bytes(*four))
    };
    let half = |i: usize| {
        let two = block.get(at.checked_add(i)?..)?.first_chunk()?;
        Some(u16::from_ne_bytes(*two))
    };
    use core::mem::offset_of;
    type Header = libc::tpacket3_hdr;
    let next = word(offset_of!(Header, tp_next_offset))? as usize;
    let captured = word(offset_of!(Header, tp_snaplen))? as usize;
    let length = word(offset_of!(Header, tp_len))?;
    let seconds = u64::from(word(offset_of!(Header, tp_sec))?);
    let nanos = word(offset_of!(Header, tp_nsec))?;
    let passed = Duration::from_secs(seconds) + Duration::from_nanos(nanos.into());
    let start = usize::from(half(offset_of!(Header, tp_mac))?);
    // packet(7): an address follows the header, aligned.
    let address = size_of::<Header>().next_multiple_of(libc::TPACKET_ALIGNMENT);
    let kind = block.get(at.checked_add(address + offset_of!(libc::sockaddr_ll, sll_pkttype))?)?;
    let bytes = at.checked_add(start).and_then(|a| block.get(a..a.checked_add(captured)?));
    let outgoing = *kind == libc::PACKET_OUTGOING;
    Some((bytes.map(|bytes| Packet { bytes, length, outgoing, at: passed }), at.checked_add(next)?))
}

/// Returns the kernel's counters since the last call.
pub(super) fn counted(socket: &OwnedFd) -> io::Result<SocketCounters> {
    let mut stats = libc::tpacket_stats_v3 { tp_packets: 0, tp_drops: 0, tp_freeze_q_cnt: 0 };
    let mut length = size_of_val(&stats) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `stats`.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut stats).cast(),
            &raw mut length,
        )
    };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(SocketCounters { packets: stats.tp_packets, lost: stats.tp_drops })
}

fn set<T>(socket: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: the pointer is to a live value of the length that is passed with it.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            option,
            core::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        /// For any values in a block, nothing outside it is read, and a walk ends.
        #[test]
        fn numbers_of_a_block_lead_nowhere_else(mut block: Vec<u8>, at in 0usize..300, next: u32) {
            block.truncate(256);
            if block.len() >= 4 {
                block[..4].copy_from_slice(&next.to_ne_bytes());
            }
            if let Some((Some(p), _)) = packet(&block, at) {
                proptest::prop_assert!(block.as_ptr_range().contains(&p.bytes.as_ptr()) || p.bytes.is_empty());
            }
        }
    }
}
