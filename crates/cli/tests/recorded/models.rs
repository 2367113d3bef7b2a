//! The models of the recorded requests: `tale`, a synthetic model for each quantization, a tiny random model for each
//! architecture, and stored models with a chat template, parameters or a LoRA adapter.

use crate::program::server::{Server, TestFolder};
use crate::program::{command, strata, tale};
use std::process::Command;

/// The types of the synthetic models, `synth-q8_0` and so on.
const MIXES: [&str; 12] = [
    "f32", "f16", "bf16", "q8_0", "q6_k", "q5_k_m", "q5_0", "q4_k_m", "q4_0", "q3_k_m", "q2_k",
    "iq4_xs",
];

/// Tiny random models, one for each architecture.
const GOLDEN: [&str; 2] = [
    concat!(env!("CARGO_MANIFEST_DIR"), "/../model/tests/golden"),
    concat!(env!("CARGO_MANIFEST_DIR"), "/../model/tests/golden_states"),
];

/// A checkpoint, and a LoRA adapter for it.
const BASE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../convert/tests/folders/llama-llama3-rope"
);
const ADAPTER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../convert/tests/adapters/llama"
);

/// Opens a thinking block if the request asks for one.
const THINKER: &str = r#"TEMPLATE """{{ range .Messages }}<|im_start|>{{ .Role }}
{{ .Content }}<|im_end|>
{{ end }}<|im_start|>assistant
{{ if .Think }}<think>
{{ end }}""""#;

/// Lists tools and calls in the format of Hermes.
const CALLER: &str = r#"TEMPLATE """{{ if .Tools }}<|im_start|>system
{{ range .Tools }}{{ . }}
{{ end }}Call <tool_call> or answer.<|im_end|>
{{ end }}{{ range .Messages }}<|im_start|>{{ .Role }}
{{ .Content }}{{ range .ToolCalls }}<tool_call>
{"name": "{{ .Function.Name }}", "arguments": {{ .Function.Arguments }}}
</tool_call>{{ end }}<|im_end|>
{{ end }}<|im_start|>assistant
""""#;

const TELLER: &str = "SYSTEM Tell short tales.
PARAMETER seed 7
PARAMETER temperature 0.6
PARAMETER num_predict 16
PARAMETER stop <end>
MESSAGE user Hello
MESSAGE assistant Hi.";

/// A directory with the models, removed after the test.
pub(crate) struct Models {
    folder: TestFolder,
    files: Vec<String>,
}

impl Models {
    pub(crate) fn new(name: &str) -> Self {
        let folder = TestFolder::new(name);
        let mut files = Vec::new();
        for mix in MIXES {
            let file = format!("synth-{mix}.gguf");
            let path = folder.path().join(&file);
            strata(&[
                "synth".as_ref(),
                path.as_os_str(),
                "--mix".as_ref(),
                mix.as_ref(),
            ])
            .text();
            files.push(file);
        }
        for golden in GOLDEN {
            for entry in std::fs::read_dir(golden).expect("the folder is there") {
                let path = entry.expect("it can be read").path();
                if path
                    .extension()
                    .is_some_and(|extension| extension == "gguf")
                {
                    let file = path.file_name().expect("files have names");
                    std::fs::copy(&path, folder.path().join(file)).expect("it can be copied");
                    files.push(file.to_str().expect("a plain name").into());
                }
            }
        }
        // `strata serve` takes decoders only. Encoders are for `strata embed`.
        files.retain(|file| !file.contains("bert") && !file.contains("embed"));
        let tale = tale();
        for (name, more) in [("thinker", THINKER), ("caller", CALLER), ("teller", TELLER)] {
            folder.create(name, &format!("FROM {tale}\n{more}\n"));
        }
        folder.create("adapted", &format!("FROM {BASE}\nADAPTER {ADAPTER}\n"));
        Self { folder, files }
    }

    /// `strata`, in the directory of the models.
    pub(crate) fn command(&self, isa: Option<&str>) -> Command {
        let mut command = command();
        command.current_dir(self.folder.path());
        command.env("OLLAMA_MODELS", self.folder.store());
        if let Some(isa) = isa {
            command.env("STRATA_ISA", isa);
        }
        command
    }

    /// Serves all of them.
    pub(crate) fn serve(&self, flags: &[&str], isa: Option<&str>) -> Server {
        let mut command = self.command(isa);
        command
            .args(["serve", "tale"])
            .args(&self.files)
            .args(flags);
        Server::spawn(command)
    }
}
