"""Image files that Pillow wrote, with their pixels, and what transformers' own image processors make of images.

    pip install torch torchvision pillow transformers==5.22.2
    python tools/vision_vectors.py --out crates/vision/tests/vectors

With `--seeds crates/fuzz/seeds` the files are written as seeds of the fuzz targets too. `files.json` has small files of each
format in base64 with the pixels that Pillow reads from them, upright. `recipes.json` and `by_budget.json` have, for each
family and a few odd sizes, the pixels (before they are normalized, as bytes) that its processors give for an image made by a
formula that the tests know too: with Pillow's resampling, and with torchvision's where that differs by more than one level.
"""

import argparse
import base64
import io
import json
import re
from pathlib import Path

import numpy as np
import transformers
from PIL import Image, ImageOps

SIZES = [(31, 17), (17, 31), (64, 64), (7, 90), (200, 3), (129, 61), (1, 1), (53, 54)]
MEAN, STD = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]


def formula(width, height):
    y, x = np.mgrid[0:height, 0:width].astype(np.int64)
    planes = [(x * x * 3 + y * y * 5 + x * y * 2 + c * 85 + (x * 37 + y * 17) % 29 * 4) & 255 for c in range(3)]
    return np.stack(planes, axis=-1).astype(np.uint8)


def encoded(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def files():
    rgb = Image.fromarray(formula(13, 9))
    smooth = rgb.resize((40, 24), Image.BICUBIC)
    alpha = rgb.convert("RGBA")
    alpha.putalpha(Image.fromarray(formula(13, 9)[:, :, 0]))
    turned = {}
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        turned[f"jpeg, orientation {orientation}"] = encoded(smooth, "JPEG", quality=95, subsampling=0, exif=exif)
    exif = Image.Exif()
    exif[0x0112] = 6
    other = rgb.transpose(Image.FLIP_LEFT_RIGHT)
    made = {
        "png, rgb": encoded(rgb, "PNG"),
        "png, rgba": encoded(alpha, "PNG"),
        "png, gray": encoded(rgb.convert("L"), "PNG"),
        "png, gray and alpha": encoded(alpha.convert("LA"), "PNG"),
        "png, palette": encoded(rgb.quantize(16), "PNG"),
        "png, one bit": encoded(rgb.convert("1"), "PNG"),
        "png, orientation 6": encoded(rgb, "PNG", exif=exif),
        "bmp, 24 bits": encoded(rgb, "BMP"),
        "bmp, 32 bits": encoded(alpha, "BMP"),
        "bmp, palette": encoded(rgb.quantize(16), "BMP"),
        "bmp, one bit": encoded(rgb.convert("1"), "BMP"),
        "gif": encoded(rgb, "GIF"),
        "gif, animated": encoded(rgb, "GIF", save_all=True, append_images=[other, rgb]),
        "webp, lossless": encoded(rgb, "WEBP", lossless=True),
        "webp, lossless with alpha": encoded(alpha, "WEBP", lossless=True, exact=True),
        "webp, orientation 6": encoded(rgb, "WEBP", lossless=True, exif=exif),
        "webp, animated": encoded(rgb, "WEBP", lossless=True, save_all=True, append_images=[other]),
        "webp, lossy": encoded(smooth, "WEBP", quality=90),
        "jpeg, gray": encoded(smooth.convert("L"), "JPEG", quality=95),
        "jpeg, 4:2:0": encoded(smooth, "JPEG", quality=95, subsampling=2),
        "jpeg, progressive": encoded(smooth, "JPEG", quality=95, subsampling=0, progressive=True),
        **turned,
    }
    for name, file in made.items():
        image = Image.open(io.BytesIO(file))
        image.seek(0)
        image = ImageOps.exif_transpose(image).convert("RGB")
        yield {"name": name, "file": base64.b64encode(file).decode(), "width": image.width, "height": image.height,
               "pixels": base64.b64encode(image.tobytes()).decode()}


def processors(pil):
    """(name, processor, options, number of tiles or None)."""
    def kind(name):
        # Llama 4 has torchvision's way only.
        return getattr(transformers, f"{name}Pil", None) if pil and hasattr(transformers, f"{name}Pil") else getattr(transformers, name)

    norm = dict(image_mean=MEAN, image_std=STD)
    return {
        "pad": kind("LlavaImageProcessor")(size={"shortest_edge": 24}, crop_size={"height": 24, "width": 24}, do_pad=True,
                                           **norm),
        "crop": kind("CLIPImageProcessor")(size={"shortest_edge": 24}, crop_size={"height": 24, "width": 24}, **norm),
        "stretch": kind("Gemma3ImageProcessor")(size={"height": 24, "width": 24}, **norm),
        "area": kind("Qwen2VLImageProcessor")(patch_size=6, merge_size=2, temporal_patch_size=1,
                                              size={"shortest_edge": 4 * 144, "longest_edge": 16 * 144}, **norm),
        "longest": kind("PixtralImageProcessor")(size={"longest_edge": 40}, patch_size={"height": 6, "width": 6}, **norm),
        "grid": kind("GotOcr2ImageProcessor")(size={"height": 16, "width": 16}, crop_to_patches=True, max_patches=6, **norm),
        "pinpoints": kind("LlavaNextImageProcessor")(size={"shortest_edge": 12}, crop_size={"height": 12, "width": 12},
                                                     image_grid_pinpoints=[[12, 24], [24, 12], [24, 24], [36, 12], [12, 36]],
                                                     **norm),
        "budget": kind("Gemma4ImageProcessor")(patch_size=2, pooling_kernel_size=3, max_soft_tokens=70),
        "canvas": kind("Llama4ImageProcessor")(size={"height": 16, "width": 16}, max_patches=6,
                                               image_mean=[0.0] * 3, image_std=[1.0] * 3),
        "slices": kind("MiniCPMV4_6ImageProcessor")(scale_resolution=24, patch_size=2, max_slice_nums=9, **norm),
        "tiled": kind("Idefics3ImageProcessor")(size={"longest_edge": 64}, max_image_size={"longest_edge": 16}, **norm),
    }


def unit_colors(x):
    """Colors between 0 and 1, normed."""
    return (x - np.reshape(MEAN, (3, 1, 1))) / np.reshape(STD, (3, 1, 1))


def tiles(name, processor, image):
    """(tiles, 3, height, width) before normalization, as bytes' values; tiles may differ in size."""
    out = processor(images=[image], return_tensors={"longest": None, "canvas": "pt"}.get(name, "np"))
    values = out["pixel_values"]
    if name == "canvas":
        # It computes in bfloat16, which would show if colors were normed too.
        values = [unit_colors(x) for x in values.double().numpy().reshape(-1, 3, 16, 16)]
    elif name == "budget":
        places = np.asarray(out["image_position_ids"])[0]
        columns, rows = (int(n) + 1 for n in places.max(axis=0))
        x = np.asarray(values, dtype=np.float64)[0, : rows * columns].reshape(rows, columns, 2, 2, 3)
        x = x.transpose(4, 0, 2, 1, 3).reshape(3, rows * 2, columns * 2)
        values = [unit_colors(x)]
    elif name == "slices":
        found, at = [], 0
        for rows, columns in (map(int, size) for size in np.asarray(out["target_sizes"])):
            x = np.asarray(values)[0, :, :, at : at + rows * columns * 2].reshape(3, 2, rows, columns, 2)
            found.append(x.transpose(0, 2, 1, 3, 4).reshape(3, rows * 2, columns * 2))
            at += rows * columns * 2
        values = found[1:] + found[:1]
    elif name == "area":
        _, rows, columns = (int(n) for n in out["image_grid_thw"][0])
        x = np.asarray(values).reshape(rows // 2, columns // 2, 2, 2, 3, 6, 6)
        values = [x.transpose(4, 0, 2, 5, 1, 3, 6).reshape(3, rows * 6, columns * 6)]
    elif name == "tiled":
        values = list(np.asarray(values)[0])
    elif name == "pinpoints":
        values = list(np.asarray(values)[0])
        values = values[1:] + values[:1]
    elif name == "longest":
        values = [np.asarray(value) for value in values]
        values = [values[0][0] if values[0].ndim == 4 else values[0]]
    else:
        values = list(np.asarray(values))
    mean, std = (np.array(x, dtype=np.float64).reshape(3, 1, 1) for x in (MEAN, STD))
    return [np.asarray(value, dtype=np.float64) * std * 255 + mean * 255 for value in values]


# Recipes that `by_budget.json` has, over fewer sizes.
BY_BUDGET = ("budget", "canvas", "slices")


def recipes(chosen):
    exact, fast = processors(True), processors(False)
    for name, processor in exact.items():
        if (name in BY_BUDGET) != chosen:
            continue
        for width, height in [(31, 17), (7, 90), (129, 61)] if chosen else SIZES:
            if name == "area" and max(width, height) > 200 * min(width, height):
                continue
            image = Image.fromarray(formula(width, height))
            try:
                found = tiles(name, processor, image)
            except ValueError as error:
                print(name, (width, height), error)
                continue
            try:
                peers = tiles(name, fast[name], image)
                worst = max(float(np.abs(a - b).max()) for a, b in zip(found, peers))
            except Exception as error:
                print(name, (width, height), "torchvision:", error)
                worst = None
            case = {"recipe": name, "width": width, "height": height, "tiles": [described(t) for t in found]}
            if worst is not None and worst > 1.01:
                # The two ways of transformers differ themselves; Pillow 13 may do columns before rows.
                case["torchvision"] = [described(t) for t in peers]
            yield case


def described(tile):
    pixels = np.rint(tile).clip(0, 255).astype(np.uint8)
    return {"height": tile.shape[1], "width": tile.shape[2], "pixels": base64.b64encode(pixels.tobytes()).decode()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=Path)
    arguments = parser.parse_args()
    folder = arguments.out
    folder.mkdir(parents=True, exist_ok=True)
    made = list(files())
    (folder / "files.json").write_text(json.dumps(made, indent=0) + "\n")
    for file in made if arguments.seeds else []:
        kind, _, rest = file["name"].partition(", ")
        seed = arguments.seeds / kind / (re.sub(r"\W+", "-", rest or "plain") + f".{kind}")
        seed.parent.mkdir(parents=True, exist_ok=True)
        seed.write_bytes(base64.b64decode(file["file"]))
    for name, chosen in (("recipes", False), ("by_budget", True)):
        (folder / f"{name}.json").write_text(json.dumps(list(recipes(chosen)), indent=0) + "\n")


if __name__ == "__main__":
    main()
