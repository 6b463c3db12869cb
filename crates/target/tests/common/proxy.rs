//! A proxy in a thread, for the tests.

use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::thread::JoinHandle;

use target::proxy::{self, ProxyCounters, ProxyOptions};
use target::{Counters, ServeError, ServeOptions, Stop};

use super::{Client, HANG_GUARD, Reply};

pub struct Proxied {
    pub addr: SocketAddr,
    pub stop: Stop,
    thread: JoinHandle<Result<(Counters, ProxyCounters), ServeError>>,
}

/// A proxy of one worker to those origins.
pub fn proxy_to(origins: &[SocketAddr], options: ProxyOptions) -> Proxied {
    let origins = origins.iter().map(|addr| format!("http://{addr}").parse().unwrap()).collect();
    start(ServeOptions::default(), ProxyOptions { origins, ..options })
}

pub fn start(options: ServeOptions, proxy: ProxyOptions) -> Proxied {
    let stop = Stop::new().unwrap();
    let (tell, told) = mpsc::channel();
    let stopped = stop.clone();
    let thread =
        std::thread::spawn(move || proxy::serve(&options, &proxy, &stopped, |addrs| tell.send(addrs[0]).unwrap()));
    let Ok(addr) = told.recv_timeout(HANG_GUARD) else { panic!("the proxy did not start: {:?}", thread.join()) };
    Proxied { addr, stop, thread }
}

impl Proxied {
    pub fn connect(&self) -> Client {
        Client::new(TcpStream::connect(self.addr).unwrap())
    }

    pub fn ask(&self, request: &str) -> Reply {
        let mut client = self.connect();
        client.send(request.as_bytes());
        client.reply(request.starts_with("HEAD"))
    }

    pub fn get(&self, path: &str) -> Reply {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: t\r\n\r\n"))
    }

    /// Stops it and takes what it counted, which must be whole.
    pub fn finish(self) -> (Counters, ProxyCounters) {
        self.stop.stop();
        let (counters, of_origins) = self.thread.join().expect("no panic").expect("a clean end");
        assert_eq!(counters.accepted, counters.closed, "{counters:?}");
        (counters, of_origins)
    }
}
