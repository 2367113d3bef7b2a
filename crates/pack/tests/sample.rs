//! A small artifact.

use strata_pack::{
    Contents, Kind, MachineNeeds, Manifest, MemoryNeeds, PackedModel, PackedPreset, PackedProgram,
    SigningKey, Start, StartMode, sha256,
};

/// A static program without code, and of no round length: an ELF header for x86-64, with no program headers.
pub(crate) const PROGRAM: &[u8] = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0\
    \x01\0\0\0\0\0\0\0\0\0\0\0\x40\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x40\0\
    \x38\0\0\0\0\0\0\0\0\0 and so on, for an odd number of bytes";
pub(crate) const LARGE: &[u8] = &[0xa5; 70_001];
pub(crate) const SMALL: &[u8] = b"GGUF, the smaller one";

pub(crate) fn model(file: &str, bytes: &[u8]) -> PackedModel {
    let memory = MemoryNeeds {
        weights_bytes: bytes.len() as u64,
        kv_bytes: 10,
        workspace_bytes: 20,
        program_bytes: 30,
        total_bytes: bytes.len() as u64 + 60,
    };
    PackedModel {
        file: file.into(),
        bytes: bytes.len() as u64,
        sha256: sha256(bytes),
        architecture: "llama".into(),
        quantization: "Q4_K_M".into(),
        licenses: vec!["mit".into()],
        template_sha256: None,
        trained_context: 512,
        preset: Some(PackedPreset {
            system: Some("Be brief.".into()),
            ..PackedPreset::default()
        }),
        memory,
        component: None,
    }
}

pub(crate) fn manifest(kind: Kind) -> Manifest {
    Manifest {
        format: Manifest::FORMAT,
        kind,
        name: "fox".into(),
        program: PackedProgram {
            version: "0.1.0".into(),
            bytes: PROGRAM.len() as u64,
            sha256: sha256(PROGRAM),
        },
        models: vec![model("fox-q8_0.gguf", LARGE), model("fox-q4_0.gguf", SMALL)],
        start: Start {
            mode: StartMode::Chat,
            context: 512,
        },
        machine: MachineNeeds {
            architecture: "x86_64".into(),
            memory_bytes: 81,
        },
        signer: None,
    }
}

pub(crate) fn key() -> SigningKey {
    SigningKey::from_seed([3; 32])
}

/// The artifact as a file.
pub(crate) fn packed(manifest: Manifest, key: Option<&SigningKey>) -> Vec<u8> {
    let contents = Contents::new(manifest, PROGRAM, vec![LARGE, SMALL], key);
    contents.layout().unwrap().to_vec()
}
