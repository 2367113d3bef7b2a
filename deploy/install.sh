#!/bin/sh
# Installs strata from an archive that `cargo xtask dist` made. Nothing of the archive is unpacked or run before its
# checksum, and with --key the signature of the checksums, is verified.
set -eu

usage="Usage: install.sh --from URL-OR-FOLDER [--prefix DIR] [--target TRIPLE] [--version N] [--key PUBLIC-KEY.pem]

  --from     where SHA256SUMS and the archives are
  --prefix   what bin, share/man and the completions go under [default: ~/.local]
  --target   the system to install for [default: this one's]
  --version  the version to install [default: the one there is]
  --key      who must have signed SHA256SUMS: an Ed25519 public key"

fail() {
    echo "install.sh: $*" >&2
    exit 1
}

from='' prefix="${HOME:-}/.local" target='' version='' key=''
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help)
        echo "$usage"
        exit 0
        ;;
    --from | --prefix | --target | --version | --key)
        [ $# -ge 2 ] || fail "$1 needs a value"
        name=${1#--}
        eval "$name=\$2"
        shift 2
        ;;
    *) fail "unknown argument $1
$usage" ;;
    esac
done
[ -n "$from" ] || fail "--from is missing
$usage"

# The C library that this system has, if it is new enough for the dynamic program; the static one runs everywhere.
libc() {
    found=$(getconf GNU_LIBC_VERSION 2>/dev/null | sed -n 's/^glibc 2\.\([0-9]*\).*/\1/p')
    if [ "${found:-0}" -ge 34 ]; then echo gnu; else echo musl; fi
}

if [ -z "$target" ]; then
    [ "$(uname -s)" = Linux ] || fail "there are archives for Linux only, and this is $(uname -s)"
    case $(uname -m) in
    x86_64 | amd64) target=x86_64-unknown-linux-$(libc) ;;
    aarch64 | arm64) target=aarch64-unknown-linux-gnu ;;
    *) fail "there is no archive for $(uname -m)" ;;
    esac
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

fetch() {
    case $from in
    https://* | http://127.0.0.1 | http://127.0.0.1[:/]* | http://localhost | http://localhost[:/]*)
        if command -v curl >/dev/null 2>&1; then
            curl -fsSL "$from/$1" -o "$work/$1"
        elif command -v wget >/dev/null 2>&1; then
            wget -qO "$work/$1" "$from/$1"
        else
            fail "neither curl nor wget is here"
        fi
        ;;
    *://*) fail "$from: only https" ;;
    *) cp "$from/$1" "$work/$1" ;;
    esac || fail "cannot fetch $from/$1"
}

sum() {
    if command -v sha256sum >/dev/null 2>&1; then
        sha256sum "$1"
    elif command -v shasum >/dev/null 2>&1; then
        shasum -a 256 "$1"
    else
        fail "neither sha256sum nor shasum is here"
    fi | cut -c 1-64
}

fetch SHA256SUMS
if [ -n "$key" ]; then
    fetch SHA256SUMS.sig
    openssl pkeyutl -verify -pubin -inkey "$key" -rawin -in "$work/SHA256SUMS" -sigfile "$work/SHA256SUMS.sig" \
        >/dev/null 2>&1 || fail "the signature of SHA256SUMS is not that of $key"
fi
pattern="strata-${version:-[0-9][0-9a-z.+-]*}-$target\.tar\.gz"
archive=$(sed -n "s/^[0-9a-f]\{64\}  \($pattern\)\$/\1/p" "$work/SHA256SUMS")
[ -n "$archive" ] || fail "there is no archive for $target in $from"
[ "$(echo "$archive" | wc -l)" -eq 1 ] || fail "there are several versions: choose one with --version"
expected=$(sed -n "s/^\([0-9a-f]\{64\}\)  $archive\$/\1/p" "$work/SHA256SUMS")
fetch "$archive"
found=$(sum "$work/$archive")
[ "$found" = "$expected" ] || fail "$archive has the checksum $found, and SHA256SUMS says $expected: nothing was installed"

tar -xzf "$work/$archive" -C "$work"
folder=$work/${archive%.tar.gz}
"$folder/strata" --version >/dev/null || fail "the program does not start here: try --target x86_64-unknown-linux-musl"
mkdir -p "$prefix/bin" "$prefix/share/man/man1" "$prefix/share/bash-completion/completions" \
    "$prefix/share/zsh/site-functions" "$prefix/share/fish/vendor_completions.d"
cp "$folder"/man/man1/*.1 "$prefix/share/man/man1/"
cp "$folder/completions/strata.bash" "$prefix/share/bash-completion/completions/strata"
cp "$folder/completions/_strata" "$prefix/share/zsh/site-functions/_strata"
cp "$folder/completions/strata.fish" "$prefix/share/fish/vendor_completions.d/strata.fish"
# A program that runs cannot be overwritten, only replaced.
cp "$folder/strata" "$prefix/bin/.strata.new"
chmod 755 "$prefix/bin/.strata.new"
mv "$prefix/bin/.strata.new" "$prefix/bin/strata"
echo "installed $("$prefix/bin/strata" --version) as $prefix/bin/strata"
case :$PATH: in
*:"$prefix/bin":*) ;;
*) echo "$prefix/bin is not on your PATH" ;;
esac
