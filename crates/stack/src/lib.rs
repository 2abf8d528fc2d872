//! Packet buffers, channels between processes, sockets, TCP/IP.
