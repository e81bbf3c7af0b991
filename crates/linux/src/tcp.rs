//! The kernel's data about one of its own TCP connections (`TCP_INFO`).

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use fairmesh_units::Span;

/// Counters of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Payload of a full segment, in bytes.
    pub mss: u32,
    /// Smoothed round trip (RFC 6298), with queues.
    pub round_trip: Span,
    /// Segments retransmitted.
    pub retransmits: u32,
    /// Segments with data sent, retransmissions included.
    pub data_segments: u32,
    /// Retransmission timeouts; `None` before Linux 6.7, which does not report them.
    pub timeouts: Option<u32>,
}

/// Reads the kernel's data about a connection.
///
/// # Errors
/// Returns an error if the file is not a TCP socket.
#[allow(unsafe_code)]
pub fn info(socket: &impl AsFd) -> io::Result<TcpInfo> {
    let mut bytes = [0u8; 256];
    let mut length = bytes.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `bytes` and their number to `length`.
    let done = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            bytes.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(parse(&bytes, length as usize))
}

/// Reads `struct tcp_info` of `linux/tcp.h` with `filled` bytes; the rest is zero.
fn parse(bytes: &[u8; 256], filled: usize) -> TcpInfo {
    let u32_at =
        |i: usize| u32::from_ne_bytes([bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]]);
    TcpInfo {
        cwnd: u32_at(80),
        mss: u32_at(16),
        round_trip: Span::from_micros(u32_at(68).into()),
        retransmits: u32_at(100),
        data_segments: u32_at(156),
        timeouts: (filled >= 242).then(|| u32::from(u16::from_ne_bytes([bytes[240], bytes[241]]))),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn an_older_kernel_reports_no_timeouts() {
        let mut bytes = [0; 256];
        bytes[240..242].copy_from_slice(&3u16.to_ne_bytes());
        assert_eq!(super::parse(&bytes, 248).timeouts, Some(3));
        assert_eq!(super::parse(&bytes, 232).timeouts, None);
    }

    #[test]
    fn the_kernel_reports_a_connections_counters() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(server.local_addr().unwrap()).unwrap();
        let (mut other, _) = server.accept().unwrap();
        client.write_all(b"hello").unwrap();
        other.read_exact(&mut [0; 5]).unwrap();
        let info = super::info(&client).unwrap();
        assert_eq!((info.data_segments, info.retransmits), (1, 0));
        assert_eq!(info.timeouts.unwrap_or(0), 0);
        assert!(info.cwnd >= 2 && info.mss > 500, "{info:?}");
        assert!(super::info(&std::net::UdpSocket::bind("127.0.0.1:0").unwrap()).is_err());
    }
}
