//! An answer as a `Stream`, on an executor of a few lines. Any executor will do: the answer wakes its task.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::thread::Thread;
use strata::{Error, Model, Options, user};

fn main() -> Result<(), Error> {
    let model = Model::open("tale", Options::default())?;
    let request = model.chat([user("Tell me a story about an owl.")]);
    let request = request.temperature(0.0).max_tokens(60);
    let told = block_on(tell(request.clone()))?;
    assert_eq!(told, request.text()?, "blocking gives the same answer");
    Ok(())
}

async fn tell(request: strata::Request) -> Result<String, Error> {
    let mut answer = request.stream_async()?;
    let mut told = String::new();
    while let Some(delta) = answer.next().await {
        let text = delta?.text;
        print!("{text}");
        told += &text;
    }
    println!("\n({} tokens)", answer.usage().generated_tokens);
    Ok(told)
}

/// Wakes the thread that waits for a future.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}
