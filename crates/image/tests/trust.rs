//! Images whose settings are signed, or the only ones, as the unikernel reads them.

mod fake;

use ed25519_compact::{KeyPair, Seed};
use fake::{kernel, model};
use strata_image::signed::{from_hex, verify};
use strata_image::{
    Form, ImageError, Kernel, ProgramSigner, Setting, Signer, Trust, trusted_image,
};
use strata_platform::Sha256;
use strata_tls::Identity;

fn contains(file: &[u8], part: &[u8]) -> bool {
    file.windows(part.len()).any(|window| window == part)
}

/// What follows a sign up to a zero.
fn text_from<'a>(file: &'a [u8], sign: &[u8]) -> &'a str {
    let at = file.windows(sign.len()).position(|part| part == sign);
    let rest = &file[at.expect("the sign")..];
    let end = rest.iter().position(|byte| *byte == 0).unwrap();
    std::str::from_utf8(&rest[..end]).unwrap()
}

fn settings() -> Vec<Setting> {
    [("name", "a fox"), ("port", "80")]
        .map(|(key, value)| (key.into(), value.into()))
        .into()
}

#[test]
fn settings_are_signed_and_closed() {
    let key = KeyPair::from_seed(Seed::new([7; 32]));
    let sign = |message: &[u8]| *key.sk.sign(message, None);
    let (file, model) = (kernel(), model(10_000));
    let kernel = Kernel::parse(&file).unwrap();
    for (form, sealed) in [
        (Form::Elf, false),
        (Form::Elf, true),
        (Form::Efi, true),
        (Form::Img, false),
        (Form::Img, true),
        (Form::Iso, true),
    ] {
        let trust = Trust {
            signer: Some(Signer {
                public: *key.pk,
                sign: &sign,
            }),
            sealed,
            ..Trust::default()
        };
        let made = trusted_image(form, &kernel, &settings(), Some(&model), &trust);
        let image = made.unwrap().to_vec();
        // The key is part of the program, whatever the form.
        let text = text_from(&image, b"trust=");
        let (digits, rest) = text["trust=".len()..].split_at(64);
        assert_eq!(from_hex(digits), Some(*key.pk), "{form:?}");
        let has_file = contains(&image, b"name = \"a fox\"");
        let attached = sealed || form == Form::Elf;
        assert_eq!(has_file, !attached, "{form:?} {sealed}");
        let signed = if attached {
            rest.trim_start()
        } else {
            text_from(&image, b"name = \"a fox\"")
        };
        let verified = verify(signed, &key.pk).expect("the signature");
        assert_eq!(verified.contains("sealed=on"), sealed, "{form:?}");
        assert!(verified.contains("port"), "{verified}");
    }
}

/// Without a key, a sealed image has its settings in the program all the same.
#[test]
fn a_sealed_image_needs_no_key() {
    let (file, model) = (kernel(), model(10_000));
    let kernel = Kernel::parse(&file).unwrap();
    let trust = Trust {
        sealed: true,
        ..Trust::default()
    };
    let made = trusted_image(Form::Img, &kernel, &settings(), Some(&model), &trust);
    let image = made.unwrap().to_vec();
    assert!(contains(&image, b"sealed=on name=\"a fox\" port=80"));
    assert!(!contains(&image, b"trust=") && !contains(&image, b"name = \"a fox\""));
}

/// The message behind a program signs the digest of the program, as firmware computes it.
#[test]
fn programs_are_signed_for_secure_boot() {
    let (file, model) = (kernel(), model(10_000));
    let kernel = Kernel::parse(&file).unwrap();
    let made = |sign: &dyn Fn(&[u8]) -> Vec<u8>, certificate: &[u8]| {
        let program = Some(ProgramSigner { certificate, sign });
        let trust = Trust {
            program,
            ..Trust::default()
        };
        trusted_image(Form::Efi, &kernel, &settings(), Some(&model), &trust).map(|l| l.to_vec())
    };
    let certificate = Identity::self_signed([1; 32], &["maker"]);
    let certificate = &certificate.certificates()[0];
    let signed = std::cell::RefCell::new(Vec::new());
    let sign = |message: &[u8]| {
        signed.replace(message.to_vec());
        vec![0x5a; 256]
    };
    let image = made(&sign, certificate).unwrap();
    let number = |at: usize| u32::from_le_bytes(image[at..at + 4].try_into().unwrap()) as usize;
    let header = number(0x3c) + 24;
    let (at, len) = (number(header + 144), number(header + 148));
    assert_eq!((at + len, at % 8), (image.len(), 0));
    assert!(contains(&image[at..], &[0x5a; 256]) && contains(&image[at..], certificate));
    let mut sum = Sha256::new();
    for part in [0..header + 64, header + 68..header + 144, header + 152..at] {
        sum.update(&image[part]);
    }
    assert!(contains(&image[at..], &sum.finalize()));
    // A set of attributes, and not the message itself.
    assert_eq!(signed.borrow()[0], 0x31);
    assert_eq!(made(&sign, b"nothing").err(), Some(ImageError::Certificate));
}
