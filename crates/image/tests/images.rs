//! What is written is read back, by other people's programs where they are installed.

mod fake;

use fake::{BASE, IMAGE_BYTES, kernel, model};
use std::borrow::Cow;
use std::path::Path;
use std::process::Command;
use strata_image::{
    DATA_PARTITION, FatError, FatKind, FatOptions, File, Form, ImageError, Kernel, KernelError,
    Layout, Setting, Trust, fat_volume, image, stick,
};

/// What a program says about a file; nothing where it is not installed.
fn told(program: &str, arguments: &[&str], path: &Path) -> Option<String> {
    let output = match Command::new(program).args(arguments).arg(path).output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("skipped: {program} cannot be started: {error}");
            return None;
        }
    };
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{program} failed:\n{text}");
    Some(text)
}

fn written(layout: &Layout<'_>, name: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    let mut file = std::fs::File::create(&path).unwrap();
    layout.write_to(&mut file).unwrap();
    assert_eq!(file.metadata().unwrap().len(), layout.len());
    (folder, path)
}

fn number(bytes: &[u8], at: usize, size: usize) -> u64 {
    let field = bytes[at..at + size].iter().rev();
    field.fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

fn settings(key: &str) -> Vec<Setting> {
    [("name", "a fox"), ("key", key)]
        .map(|(key, value)| (key.into(), value.into()))
        .into()
}

fn make<'a>(form: Form, kernel: &[u8], model: &'a [u8]) -> Layout<'a> {
    let kernel = Kernel::parse(kernel).unwrap();
    image(form, &kernel, &settings("12345678"), Some(model)).unwrap()
}

/// The attachment's options and model, as the unikernel finds them in memory.
fn attachment(memory: &[u8]) -> (&[u8], &[u8]) {
    assert_eq!(&memory[..8], b"STRATA\0\x01");
    let options = number(memory, 8, 4) as usize;
    let model = number(memory, 12, 4) as usize;
    let bytes = number(memory, 16, 8) as usize;
    (&memory[24..24 + options], &memory[model..model + bytes])
}

#[test]
fn hypervisors_load_the_model_behind_the_kernel() {
    let (kernel, model) = (kernel(), model(10_000));
    let layout = make(Form::Elf, &kernel, &model);
    let file = layout.to_vec();
    assert_eq!(number(&file, 56, 2), 3);
    assert_eq!(number(&file, 40, 8), 0, "no sections");
    let entry = 64 + 2 * 56;
    let [offset, _, address, bytes] = [8, 16, 24, 32].map(|at| number(&file, entry + at, 8));
    assert_eq!(address, BASE + u64::from(IMAGE_BYTES));
    let attached = &file[offset as usize..(offset + bytes) as usize];
    assert_eq!(
        attachment(attached),
        (&b"name=\"a fox\" key=12345678"[..], &model[..])
    );
    // The image's own header says the same.
    let section = 0x1000 + 0x40 + 24 + 160 + 80;
    assert_eq!(&file[section..section + 8], b".strata\0");
    assert_eq!(number(&file, section + 8, 4), bytes);
    assert_eq!(number(&file, section + 12, 4), IMAGE_BYTES.into());
    let (_folder, path) = written(&layout, "a.elf");
    if let Some(text) = told("readelf", &["-lW"], &path) {
        assert!(text.contains("There are 3 program headers"), "{text}");
        assert!(
            text.contains("0x0000000000206000 0x0000000000206000"),
            "{text}"
        );
        assert!(!text.to_lowercase().contains("warning"), "{text}");
    }
}

#[test]
fn firmware_loads_the_model_as_a_section() {
    let (kernel, model) = (kernel(), model(10_000));
    let layout = make(Form::Efi, &kernel, &model);
    let file = layout.to_vec();
    let head = 0x40;
    assert_eq!(number(&file, head + 6, 2), 3);
    let section = head + 24 + 160 + 80;
    let [bytes, start, in_file, offset] = [8, 12, 16, 20].map(|at| number(&file, section + at, 4));
    assert_eq!(start, IMAGE_BYTES.into());
    assert_eq!((offset % 512, in_file % 512), (0, 0));
    assert!(offset + in_file == file.len() as u64 && bytes <= in_file);
    assert_eq!(
        number(&file, head + 24 + 56, 4),
        (start + bytes).next_multiple_of(4096)
    );
    let attached = &file[offset as usize..(offset + bytes) as usize];
    assert_eq!(attachment(attached).1, model);
    let (_folder, path) = written(&layout, "a.efi");
    if let Some(text) = told("objdump", &["-h"], &path) {
        assert!(
            text.contains("pei-x86-64") && text.contains(".strata"),
            "{text}"
        );
    }
}

#[test]
fn sticks_are_sound_disks() {
    let (kernel, model) = (kernel(), model(3_000_000));
    let layout = make(Form::Img, &kernel, &model);
    let (folder, path) = written(&layout, "a.img");
    if let Some(text) = told("sgdisk", &["-v"], &path) {
        assert!(text.contains("No problems found"), "{text}");
    }
    let disk = std::fs::read(&path).unwrap();
    let volume = folder.path().join("volume");
    let entry = 2 * 512;
    let [first, last] = [32, 40].map(|at| number(&disk, entry + at, 8) as usize);
    std::fs::write(&volume, &disk[first * 512..(last + 1) * 512]).unwrap();
    check_volume(&volume, &model);
}

#[test]
fn a_partition_for_data_lies_behind_the_volume() {
    let (kernel, model) = (kernel(), model(3_000_000));
    let parsed = Kernel::parse(&kernel).unwrap();
    let made = stick(
        &parsed,
        &settings("12345678"),
        Some(&model),
        &Trust::default(),
        (5 << 20) + 1,
    );
    let layout = made.unwrap();
    let (folder, path) = written(&layout, "a.img");
    if let Some(text) = told("sgdisk", &["-v", "-p"], &path) {
        assert!(text.contains("No problems found"), "{text}");
        assert!(text.contains("Strata data"), "{text}");
    }
    let disk = std::fs::read(&path).unwrap();
    let entry = |index: usize| {
        let at = 2 * 512 + index * 128;
        let [first, last] = [32, 40].map(|field| number(&disk, at + field, 8) as usize);
        (&disk[at..at + 16], &disk[at + 16..at + 32], first, last)
    };
    let (system, data) = (entry(0), entry(1));
    assert_eq!(data.0, DATA_PARTITION);
    assert!(system.0 != data.0 && system.1 != data.1);
    assert!(data.2 > system.3 && data.2 % 2048 == 0);
    assert_eq!((data.3 + 1 - data.2) * 512, 6 << 20);
    assert!(
        disk[data.2 * 512..(data.3 + 1) * 512]
            .iter()
            .all(|byte| *byte == 0)
    );
    let volume = folder.path().join("volume");
    std::fs::write(&volume, &disk[system.2 * 512..(system.3 + 1) * 512]).unwrap();
    check_volume(&volume, &model);
}

/// What other systems find on a volume.
fn check_volume(volume: &Path, model: &[u8]) {
    if let Some(text) = told("fsck.fat", &["-n", "-v"], volume) {
        assert!(text.contains("6 files"), "{text}");
        assert!(
            !text.contains("differ") && !text.contains("Leaving"),
            "{text}"
        );
    }
    let text = Command::new("mtype")
        .arg("-i")
        .arg(volume)
        .arg("::strata.toml")
        .output();
    if let Ok(output) = text {
        assert_eq!(
            output.stdout, b"name = \"a fox\"\nkey = \"12345678\"\n",
            "{output:?}"
        );
    }
    let copy = volume.with_extension("copy");
    let arguments = ["::strata.gguf", &copy.to_string_lossy()];
    match Command::new("mcopy")
        .arg("-i")
        .arg(volume)
        .args(arguments)
        .output()
    {
        Ok(output) => {
            assert!(output.status.success(), "{output:?}");
            assert!(std::fs::read(&copy).unwrap() == model);
        }
        Err(error) => eprintln!("skipped: mcopy cannot be started: {error}"),
    }
}

#[test]
fn discs_boot_and_are_disks_too() {
    let (kernel, model) = (kernel(), model(2_000_000));
    let layout = make(Form::Iso, &kernel, &model);
    let (folder, path) = written(&layout, "a.iso");
    if let Some(text) = told("sgdisk", &["-v"], &path) {
        assert!(text.contains("No problems found"), "{text}");
    }
    if let Some(text) = told("isoinfo", &["-d", "-i"], &path) {
        assert!(text.contains("Volume id: STRATA"), "{text}");
        assert!(text.contains("Eltorito validation header:"), "{text}");
    }
    if let Some(text) = told("isoinfo", &["-l", "-i"], &path) {
        assert!(text.contains("EFIBOOT.IMG;1"), "{text}");
    }
    // By El Torito: the catalog's block, the volume's block and its sectors.
    let disc = std::fs::read(&path).unwrap();
    let catalog = number(&disc, 17 * 2048 + 71, 4) as usize * 2048;
    let words = disc[catalog..catalog + 32].chunks_exact(2);
    let sum = words.fold(0u16, |sum, word| {
        sum.wrapping_add(u16::from_le_bytes([word[0], word[1]]))
    });
    assert_eq!(
        (disc[catalog + 1], sum, disc[catalog + 32]),
        (0xef, 0, 0x88)
    );
    let (sectors, block) = (
        number(&disc, catalog + 38, 2),
        number(&disc, catalog + 40, 4),
    );
    let start = block as usize * 2048;
    let volume = folder.path().join("volume");
    std::fs::write(&volume, &disc[start..start + sectors as usize * 512]).unwrap();
    check_volume(&volume, &model);
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let (kernel, model) = (kernel(), model(100_000));
    for form in [Form::Elf, Form::Efi, Form::Img, Form::Iso] {
        let first = make(form, &kernel, &model).to_vec();
        assert!(first == make(form, &kernel, &model).to_vec(), "{form:?}");
        let parsed = Kernel::parse(&kernel).unwrap();
        let other = image(form, &parsed, &settings("87654321"), Some(&model)).unwrap();
        assert!(
            first != other.to_vec(),
            "{form:?} does not hold the options"
        );
    }
}

#[test]
fn volumes_of_every_size_are_sound() {
    for (bytes, kind, name) in [
        (0, FatKind::Smallest, "FAT16"),
        (40 << 20, FatKind::Smallest, "FAT16"),
        (300 << 20, FatKind::Smallest, "FAT32"),
        (20 << 20, FatKind::Fat32, "FAT32"),
        (0, FatKind::Fat32, "FAT32"),
    ] {
        let large = vec![7; bytes];
        let file = |path: &str, bytes| File {
            path: path.into(),
            bytes: Cow::Borrowed(bytes),
        };
        let files = vec![
            file("EFI/BOOT/BOOTX64.EFI", b"MZ"),
            file("EFI/a folder/a long name é.txt", b"text"),
            file("large", &large),
            file("EFI/strata.toml", b"port = 80"),
        ];
        let options = FatOptions {
            kind,
            label: "TEST",
            first_sector: 0,
        };
        let layout = fat_volume(files, &options).unwrap();
        let (_folder, path) = written(&layout, "volume");
        let sector = &std::fs::read(&path).unwrap()[..512];
        let mark = if name == "FAT32" { 82 } else { 54 };
        assert_eq!(&sector[mark..mark + 5], name.as_bytes());
        if let Some(text) = told("fsck.fat", &["-n", "-v"], &path) {
            assert!(text.contains("8 files"), "{name}: {text}");
            assert!(!text.contains("Leaving"), "{text}");
        }
        match Command::new("mtype")
            .arg("-i")
            .arg(&path)
            .arg("::EFI/a folder/a long name é.txt")
            .output()
        {
            Ok(output) => assert_eq!(output.stdout, b"text", "{output:?}"),
            Err(error) => eprintln!("skipped: mtype cannot be started: {error}"),
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let kernel = kernel();
    let parsed = Kernel::parse(&kernel).unwrap();
    // Zeros that are never touched take no memory.
    let huge = vec![0; (4 << 30) + 1];
    let large = &huge[..(3usize << 30)];
    let refused = |form, model| image(form, &parsed, &[], Some(model)).unwrap_err();
    assert!(matches!(
        refused(Form::Elf, large),
        ImageError::TooLarge {
            form: Form::Elf,
            ..
        }
    ));
    assert!(matches!(
        refused(Form::Efi, &huge),
        ImageError::TooLarge {
            form: Form::Efi,
            ..
        }
    ));
    for form in [Form::Img, Form::Iso] {
        let error = refused(form, &huge);
        assert!(matches!(
            error,
            ImageError::Fat(FatError::FileTooLarge { .. })
        ));
        assert_eq!(
            error.to_string(),
            "strata.gguf has 4294967297 bytes, and files on a FAT volume have less than 4 GiB"
        );
    }
    let long = [("name".to_owned(), "x".repeat(2049))];
    assert!(matches!(
        image(Form::Elf, &parsed, &long, None),
        Err(ImageError::Options { .. })
    ));
}

#[test]
fn odd_names_and_odd_kernels_are_refused() {
    for path in ["", "a//b", "a/../b", "x/y", "X"] {
        let names = ["x", path];
        let files = names.map(|path| File {
            path: path.into(),
            bytes: Cow::Borrowed(&b""[..]),
        });
        let options = FatOptions {
            kind: FatKind::Smallest,
            label: "",
            first_sector: 0,
        };
        assert!(fat_volume(files.into(), &options).is_err(), "{path}");
    }
    assert_eq!(Kernel::parse(b"MZ").unwrap_err(), KernelError::NotElf);
    let whole = kernel();
    for len in (0..whole.len()).step_by(64) {
        if let Ok(kernel) = Kernel::parse(&whole[..len]) {
            let _ = image(Form::Elf, &kernel, &[], None);
            let _ = image(Form::Efi, &kernel, &[], None);
        }
    }
    for at in (0..512).chain(0x1000..0x1200) {
        for value in [0, 1, 0x7f, 0xff] {
            let mut bad = whole.clone();
            bad[at] = value;
            if let Ok(kernel) = Kernel::parse(&bad) {
                let _ = image(Form::Elf, &kernel, &[], None);
                let _ = image(Form::Efi, &kernel, &[], None);
            }
        }
    }
}
