use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter as FileWriter};
use pcap_file::{DataLink, PcapError, TsResolution};
use warikomi_clock::{Span, Time};

use super::{Wire, WireCounters};

/// Records what passes over another wire, in both directions, as a pcap file with nanoseconds.
///
/// Time stamps count from the clock's epoch, so a capture starts early in 1970. An error ends the
/// recording, not the traffic, and is returned by [`finish`](Wire::finish), which also ends it.
pub struct PcapWriter<W: Write> {
    /// `None` once the recording has ended.
    file: Option<FileWriter<W>>,
    inner: Box<dyn Wire>,
    error: Option<io::Error>,
}

impl<W: Write> PcapWriter<W> {
    /// Starts a file in `output` for what passes over `inner`. An error is that of writing the
    /// file's header.
    pub fn new(output: W, inner: Box<dyn Wire>) -> io::Result<Self> {
        let header = PcapHeader {
            ts_resolution: TsResolution::NanoSecond,
            datalink: DataLink::ETHERNET,
            snaplen: 0x1_0000,
            ..PcapHeader::default()
        };
        let file = FileWriter::with_header(output, header).map_err(into_io)?;
        Ok(PcapWriter { file: Some(file), inner, error: None })
    }

    fn record(&mut self, now: Time, frame: &[u8]) {
        let Some(file) = &mut self.file else { return };
        let since_epoch = Duration::from_nanos(now.as_ps() / Span::from_ns(1).as_ps());
        let packet = PcapPacket::new(since_epoch, frame.len() as u32, frame);
        if let Err(error) = file.write_packet(&packet) {
            self.error = Some(into_io(error));
            self.file = None;
        }
    }
}

impl<W: Write> fmt::Debug for PcapWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PcapWriter").field("error", &self.error).finish_non_exhaustive()
    }
}

fn into_io(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other),
    }
}

impl<W: Write + Send> Wire for PcapWriter<W> {
    fn transmit(&mut self, now: Time, frame: &[u8]) {
        self.record(now, frame);
        self.inner.transmit(now, frame);
    }

    #[inline]
    fn next_arrival(&self) -> Time {
        self.inner.next_arrival()
    }

    fn receive(&mut self, now: Time) -> Option<Vec<u8>> {
        let frame = self.inner.receive(now)?;
        self.record(now, &frame);
        Some(frame)
    }

    fn counters(&self) -> WireCounters {
        self.inner.counters()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.inner.finish()?;
        if let Some(file) = self.file.take() {
            file.into_writer().flush()?;
        }
        self.error.take().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use pcap_file::pcap::PcapReader;

    use super::super::Loopback;
    use super::*;

    #[derive(Clone, Default)]
    struct Output(Arc<Mutex<Vec<u8>>>);

    impl Write for Output {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn both_directions_are_recorded_to_the_nanosecond() {
        let output = Output::default();
        let mut wire = PcapWriter::new(output.clone(), Box::<Loopback>::default()).unwrap();
        wire.transmit(Time::ZERO + Span::from_ns(1_000_000_007), &[1; 60]);
        assert_eq!(wire.receive(Time::ZERO + Span::from_ns(1_000_000_009)), Some(vec![1; 60]));
        wire.finish().unwrap();
        wire.transmit(Time::ZERO, &[2; 60]);
        let file = output.0.lock().unwrap().clone();
        let mut reader = PcapReader::new(&file[..]).unwrap();
        let mut times = Vec::new();
        while let Some(packet) = reader.next_packet() {
            let packet = packet.unwrap();
            assert_eq!((packet.orig_len, &packet.data[..]), (60, &[1; 60][..]));
            times.push(packet.timestamp.as_nanos());
        }
        assert_eq!(times, [1_000_000_007, 1_000_000_009]);
        assert_eq!(wire.counters().tx_frames, 2, "the traffic goes on without the recording");
    }

    struct Broken(usize);

    impl Write for Broken {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(1).ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_is_told_in_the_end() {
        let mut wire = PcapWriter::new(Broken(10), Box::<Loopback>::default()).unwrap();
        for _ in 0..10 {
            wire.transmit(Time::ZERO, &[1; 60]);
        }
        assert_eq!(wire.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
