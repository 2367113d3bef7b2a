//! Plan before you load: what a model takes, and what to do where that is too much.

use strata::{Error, ErrorKind, KvType, Model, Options, Size};

fn main() -> Result<(), Error> {
    let roomy = Options::default().context(2048);
    let plan = Model::plan("tale", &roomy)?;
    for (name, bytes) in [
        ("weights", plan.weights),
        ("keys and values", plan.kv),
        ("activations", plan.activations),
        ("program", plan.program),
        ("total", plan.total()),
        ("limit", plan.limit),
    ] {
        println!("{name:<16} {:>10}", Size(bytes).to_string());
    }
    assert!(plan.fits);

    let smaller = Model::plan("tale", &roomy.clone().kv(KvType::Q8_0).requests(1))?;
    assert!(smaller.kv < plan.kv);

    let tight = roomy.memory("64M");
    let plan = Model::plan("tale", &tight)?;
    assert!(!plan.fits);
    println!("in 64 MB: {}", plan.remedies.join("; or "));
    let fewer = plan.remedies[0].strip_prefix("--ctx ");
    let fewer: Option<usize> = fewer.and_then(|tokens| tokens.parse().ok());
    let fewer = fewer.expect("a shorter context would fit");
    // The program has taken a little since.
    let shorter = Model::plan("tale", &tight.clone().context(fewer - 32))?;
    assert!(shorter.fits);

    let refused = Model::open("tale", tight.stream(strata::Stream::Never));
    let error = refused.expect_err("it does not fit");
    println!("{error}");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    Ok(())
}
