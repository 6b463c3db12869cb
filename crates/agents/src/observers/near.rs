//! The side of the run: a port of the loopback that leads to an observer on NATS.

use super::{Open, Opened, stream, who};
use crate::error::AgentsError;
use crate::limits::{ANSWER_WITHIN, PROTOCOL, RELAYS_MAX, WHO_FOR};
use crate::link::{Link, Nats, fresh, runtime};
use crate::message::{is_observer_name, read, tamed, write};
use crate::subject;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// A way to the observer of that name, for as long as the process lives; it is waited for that long. What is returned is where to dial.
///
/// # Errors
/// [`AgentsError`]: NATS cannot be reached, or no such observer is there.
pub fn open(nats: &Nats, name: &str, wait: Duration) -> Result<SocketAddr, AgentsError> {
    let (nats, name) = (nats.clone(), name.to_owned());
    let (sender, opened) = std::sync::mpsc::sync_channel(1);
    let thread = std::thread::Builder::new().name("relay".to_owned()).spawn(move || {
        let runtime = match runtime() {
            Ok(runtime) => runtime,
            Err(error) => return drop(sender.send(Err(error))),
        };
        runtime.block_on(async {
            let listening = async {
                let link = nats.connect("plimsoll load").await?;
                listen(&link, &name, wait).await
            };
            match listening.await {
                Ok((address, relaying)) => {
                    let _ = sender.send(Ok(address));
                    // For as long as the process lives.
                    let _ = relaying.await;
                }
                Err(error) => drop(sender.send(Err(error))),
            }
        });
    });
    thread.map_err(AgentsError::io("expected a thread for the way to an observer"))?;
    opened.recv().unwrap_or_else(|_| Err(AgentsError::Usage("the way to the observer broke".to_owned())))
}

/// The same on a link and a runtime that are there, until the task is aborted.
pub(crate) async fn listen(
    link: &Link,
    name: &str,
    wait: Duration,
) -> Result<(SocketAddr, tokio::task::JoinHandle<()>), AgentsError> {
    if !is_observer_name(name) {
        return Err(AgentsError::Usage(format!(
            "--observe-at: expected nats: and an observer's name, {}, got 'nats:{}'",
            crate::message::OBSERVER_NAMES,
            tamed(name)
        )));
    }
    let began = Instant::now();
    loop {
        let found = who(link, WHO_FOR, Some(name)).await;
        match found.iter().find(|one| one.name == name) {
            Some(one) if one.protocol != PROTOCOL => {
                return Err(AgentsError::Observer(format!(
                    "'{name}' is version {}, which speaks otherwise: install the same on both",
                    one.version
                )));
            }
            Some(_) => break,
            None if began.elapsed() >= wait => {
                let names: Vec<&str> = found.iter().map(|one| one.name.as_str()).collect();
                let there = if names.is_empty() {
                    "none is there".to_owned()
                } else {
                    format!("there are {}", names.join(", "))
                };
                return Err(AgentsError::Observer(format!(
                    "none of the name '{name}' answers ({there}): start `plimsoll watch --serve ADDRESS:PORT --nats URL --name {name}` where the target is"
                )));
            }
            None => {}
        }
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    let listener = listener.map_err(AgentsError::io("expected a port of the loopback for the way to an observer"))?;
    let address = listener.local_addr().map_err(AgentsError::io("expected a port's address"))?;
    let (link, name) = (link.clone(), name.to_owned());
    let places = Arc::new(Semaphore::new(RELAYS_MAX));
    let relaying = tokio::spawn(async move {
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            let Ok((tcp, _)) = listener.accept().await else {
                // Out of descriptors, or a connection that was gone at once.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let (link, name) = (link.clone(), name.clone());
            tokio::spawn(async move {
                // Where nothing opens, the connection closes: whoever dialled tries again.
                relay(&link, &name, tcp).await;
                drop(place);
            });
        }
    });
    Ok((address, relaying))
}

/// One connection.
async fn relay(link: &Link, name: &str, tcp: TcpStream) -> Option<()> {
    let stream = format!("{}{}", fresh(), fresh());
    let from = link.client.subscribe(subject::from_observer(name, &stream)).await.ok()?;
    let asked = Open { stream: stream.clone(), protocol: PROTOCOL };
    let answer = link.ask(&subject::observer(name), write(&asked), ANSWER_WITHIN).await?;
    match read::<Opened>(&answer)? {
        Opened::Open => {
            stream::carry(link.client.clone(), tcp, from, subject::to_observer(name, &stream)).await;
            Some(())
        }
        Opened::Refused { .. } => None,
    }
}
