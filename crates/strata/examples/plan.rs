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
    assert!(plan.remedies.iter().any(|remedy| remedy.contains("--ctx")));
    println!("in 64 MB: {}", plan.remedies.join("; or "));

    let refused = Model::open("tale", tight.stream(strata::Stream::Never));
    let error = refused.expect_err("it does not fit");
    println!("{error}");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    Ok(())
}
