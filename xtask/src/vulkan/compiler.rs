//! Compiles one compute shader, whose whole text is on standard input, to SPIR-V on standard output.

use glslang::{
    Compiler, CompilerOptions, ShaderInput, ShaderSource, ShaderStage, SpirvVersion,
    Target, VulkanVersion,
};
use std::io::{Read, Write};

fn main() {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).expect("a text");
    let source = ShaderSource::from(text);
    let options = CompilerOptions {
        target: Target::Vulkan {
            version: VulkanVersion::Vulkan1_3,
            spirv_version: SpirvVersion::SPIRV1_6,
        },
        ..CompilerOptions::default()
    };
    let none: Option<&[(&str, Option<&str>)]> = None;
    let input = ShaderInput::new(&source, ShaderStage::Compute, &options, none, None).expect("a target");
    let compiler = Compiler::acquire().expect("a compiler");
    let words = compiler.create_shader(input).and_then(|shader| shader.compile());
    match words {
        Ok(words) => {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            std::io::stdout().write_all(&bytes).expect("a reader");
        }
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
}
