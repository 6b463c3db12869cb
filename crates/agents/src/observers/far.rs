//! The observer's side: says that it is there, and connects what is asked for to the observer's own port.

use super::{Observer, Open, Opened, stream, who};
use crate::error::AgentsError;
use crate::limits::{PROTOCOL, RELAYS_MAX, WHO_FOR};
use crate::link::{Link, Nats, fresh, runtime};
use crate::message::{OBSERVER_NAMES, is_name, is_observer_name, read, write};
use crate::subject;
use async_nats::Message;
use futures_util::StreamExt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

/// How often it looks whether it is to end.
const LOOK_FOR_END: Duration = Duration::from_millis(100);

/// An observer that is had over NATS too.
#[derive(Debug)]
pub struct Served {
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It has no result; a panic of its was printed.
            let _ = thread.join();
        }
    }
}

/// Has the observer that listens there be reached over NATS by a name, until what is returned is dropped.
///
/// # Errors
/// [`AgentsError`]: NATS cannot be reached, or the name cannot be had.
pub fn serve(
    nats: &Nats,
    name: &str,
    listens_at: SocketAddr,
    fingerprint: String,
    version: String,
) -> Result<Served, AgentsError> {
    if !is_observer_name(name) {
        let got = crate::message::tamed(name);
        return Err(AgentsError::Usage(format!("--name: expected {OBSERVER_NAMES}, got '{got}'")));
    }
    let own = Observer { name: name.to_owned(), instance: fresh(), version, protocol: PROTOCOL, fingerprint };
    let stop = Arc::new(AtomicBool::new(false));
    let (nats, is_to_end) = (nats.clone(), Arc::clone(&stop));
    let (sender, began) = std::sync::mpsc::sync_channel(1);
    let thread = std::thread::Builder::new().name("relay".to_owned()).spawn(move || {
        let runtime = match runtime() {
            Ok(runtime) => runtime,
            Err(error) => return drop(sender.send(Err(error))),
        };
        runtime.block_on(async {
            match begun(&nats, &own).await {
                Ok(serving) => {
                    let _ = sender.send(Ok(()));
                    serving.go(&own, dialled(listens_at), &is_to_end).await;
                }
                Err(error) => drop(sender.send(Err(error))),
            }
        });
    });
    let thread = thread.map_err(AgentsError::io("expected a thread for the way from NATS"))?;
    began.recv().unwrap_or_else(|_| Err(AgentsError::Usage("the way from NATS broke".to_owned())))?;
    Ok(Served { thread: Some(thread), stop })
}

/// Where an observer that listens on every address is dialled on its own machine.
fn dialled(listens_at: SocketAddr) -> SocketAddr {
    let ip = match listens_at.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listens_at.port())
}

/// What it hears.
struct Serving {
    link: Link,
    who: async_nats::Subscriber,
    opens: async_nats::Subscriber,
}

async fn begun(nats: &Nats, own: &Observer) -> Result<Serving, AgentsError> {
    let link = nats.connect(&format!("plimsoll observer {}", own.name)).await?;
    if who(&link, WHO_FOR, Some(&own.name)).await.iter().any(|one| one.name == own.name) {
        return Err(AgentsError::Usage(format!(
            "expected a name that no other observer has, got '{}', which is there: give another (--name)",
            own.name
        )));
    }
    let failed = |error: async_nats::SubscribeError| AgentsError::Connect { url: nats.shown(), why: error.to_string() };
    let who = link.client.subscribe(subject::OBSERVERS).await.map_err(failed)?;
    let opens = link.client.subscribe(subject::observer(&own.name)).await.map_err(failed)?;
    // Who came before this one learns of it.
    link.flush().await;
    Ok(Serving { link, who, opens })
}

impl Serving {
    async fn go(mut self, own: &Observer, to: SocketAddr, stop: &AtomicBool) {
        let places = Arc::new(Semaphore::new(RELAYS_MAX));
        let mut look = tokio::time::interval(LOOK_FOR_END);
        while !stop.load(Ordering::Relaxed) {
            tokio::select! {
                Some(asked) = self.who.next() => self.answer(asked, write(own)).await,
                Some(asked) = self.opens.next() => self.open(own, to, asked, &places).await,
                _ = look.tick() => {}
            }
        }
        self.link.flush().await;
    }

    async fn answer(&self, asked: Message, body: Vec<u8>) {
        if let Some(to) = asked.reply {
            // Who asked no longer waits: nothing to do.
            let _ = self.link.client.publish(to, body.into()).await;
        }
    }

    /// Connects a stream, or says why not.
    async fn open(&self, own: &Observer, to: SocketAddr, asked: Message, places: &Arc<Semaphore>) {
        let refused = |why: String| write(&Opened::Refused { why });
        let open = read::<Open>(&asked.payload).filter(|open| is_name(&open.stream) && open.protocol == PROTOCOL);
        let Some(Open { stream, .. }) = open else {
            return self.answer(asked, refused("it was asked in words that it does not know".to_owned())).await;
        };
        let Ok(place) = Arc::clone(places).try_acquire_owned() else {
            return self.answer(asked, refused(format!("{RELAYS_MAX} streams go through already"))).await;
        };
        let from = self.link.client.subscribe(subject::to_observer(&own.name, &stream)).await;
        let (tcp, from) = match (TcpStream::connect(to).await, from) {
            (Ok(tcp), Ok(from)) => (tcp, from),
            (Err(error), _) => return self.answer(asked, refused(error.to_string())).await,
            (_, Err(error)) => return self.answer(asked, refused(error.to_string())).await,
        };
        // NATS is to know of the interest before the other side speaks.
        self.link.flush().await;
        self.answer(asked, write(&Opened::Open)).await;
        let (client, to) = (self.link.client.clone(), subject::from_observer(&own.name, &stream));
        tokio::spawn(async move {
            stream::carry(client, tcp, from, to).await;
            drop(place);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_listens_everywhere_is_dialled_on_the_loopback() {
        let at = |text: &str| dialled(text.parse().unwrap()).to_string();
        assert_eq!(at("0.0.0.0:4500"), "127.0.0.1:4500");
        assert_eq!(at("[::]:4500"), "[::1]:4500");
        assert_eq!(at("10.1.2.3:4500"), "10.1.2.3:4500");
    }
}
