"""Each transformation of images gives what was worked out by hand, and what a slow program gives pixel by pixel."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paceline_worker.input import colour, geometry, pixels, warp, whitening
from paceline_worker.input.blocks import BLOCK, by_blocks
from paceline_worker.input.dataset import Dataset
from paceline_worker.input.draws import Draws

Image = np.ndarray[Any, Any]
Pixel = tuple[float, float, float]


def drawn(count: int, seed: int = 3) -> Draws:
    return Draws(seed, np.zeros(count, np.int64), np.arange(count))


def noise(count: int, size: int = 32) -> Image:
    return np.random.RandomState(11).randint(0, 256, (count, size, size, 3)).astype(np.uint8)


def numbered(size: int) -> Image:
    """One image whose pixel in row y and column x has red 10 y + x, and no other colour."""
    rows, columns = np.mgrid[:size, :size]
    return np.stack([10 * rows + columns, 0 * rows, 0 * rows], -1)[np.newaxis].astype(np.uint8)


def test_scaled_pixels_lie_between_zero_and_one() -> None:
    scaled = pixels.scale(np.array([[[[0, 51, 255]]]], np.uint8))
    assert scaled.dtype == np.float32
    np.testing.assert_array_equal(scaled, np.array([[[[0, 0.2, 1]]]], np.float32))


def test_each_channel_loses_its_own_mean_and_is_not_divided() -> None:
    image = np.array([[[[124, 117, 104], [0, 0, 0]]]], np.uint8)
    centred = pixels.subtract_mean(image)
    assert centred.dtype == np.float32
    np.testing.assert_allclose(centred, [[[[0.32, 0.221, 0.061], [-123.68, -116.779, -103.939]]]], rtol=1e-4)


def test_contrast_is_a_norm_of_55_about_a_mean_of_zero() -> None:
    image = np.array([[[[0, 3, 9]]]], np.uint8)  # mean 4; -4, -1, 5 have the norm sqrt(42)
    expected = np.array([-4, -1, 5]) * 55 / math.sqrt(42)
    np.testing.assert_allclose(pixels.normalise_contrast(image)[0, 0, 0], expected, rtol=1e-6)


def test_image_without_contrast_becomes_zero_and_not_nan() -> None:
    assert not pixels.normalise_contrast(np.full((1, 4, 4, 3), 77, np.uint8)).any()


def test_border_is_grey_and_the_image_stands_inside() -> None:
    padded = geometry.pad(numbered(2), border=4)
    assert padded.shape == (1, 10, 10, 3)
    np.testing.assert_array_equal(padded[:, 4:6, 4:6], numbered(2))
    assert (padded.sum(dtype=int) - numbered(2).sum()) == 127 * 3 * (100 - 4)


def test_centre_of_32_is_28_from_the_third_row_and_column() -> None:
    images = noise(2)
    np.testing.assert_array_equal(geometry.centre(images, size=28), images[:, 2:30, 2:30])


def test_square_is_cut_where_it_was_asked_for() -> None:
    cut = geometry.cut(np.concatenate([numbered(4)] * 2), np.array([1, 0]), np.array([2, 1]), 2)
    assert cut[..., 0].tolist() == [[[12, 13], [22, 23]], [[1, 2], [11, 12]]]


def test_crops_reach_every_place_and_no_other() -> None:
    images = np.concatenate([numbered(6)] * 400)
    corners = geometry.crop(images, drawn(400), size=4)[:, 0, 0, 0]
    assert set(corners.tolist()) == {0, 1, 2, 10, 11, 12, 20, 21, 22}


def test_half_of_the_images_are_mirrored_and_the_others_left_alone() -> None:
    images = noise(1000, size=3)
    before = images.copy()
    mirrored = geometry.mirror(images, drawn(1000))
    turned = drawn(1000).coins("mirror")
    assert 440 < np.count_nonzero(turned) < 560
    np.testing.assert_array_equal(mirrored[turned], images[turned][:, :, ::-1])
    np.testing.assert_array_equal(mirrored[~turned], images[~turned])
    np.testing.assert_array_equal(images, before)


def test_mirror_also_turns_images_of_floats() -> None:
    images = noise(8, size=4).astype(np.float32)
    np.testing.assert_array_equal(
        geometry.mirror(images, drawn(8)), geometry.mirror(images.astype(np.uint8), drawn(8)).astype(np.float32)
    )


def test_shift_takes_the_nearest_pixel_and_repeats_the_edge() -> None:
    images, draws = noise(20), drawn(20)
    down, right = draws.uniform("shift down", -3.2, 3.2), draws.uniform("shift right", -3.2, 3.2)
    shifted = geometry.shift(images, draws)
    for index in range(20):
        rows = [min(31, max(0, math.floor(row + down[index] + 0.5))) for row in range(32)]
        columns = [min(31, max(0, math.floor(column + right[index] + 0.5))) for column in range(32)]
        np.testing.assert_array_equal(shifted[index], images[index][np.ix_(rows, columns)])


def test_each_pixel_is_repeated_nine_times_within_a_black_border() -> None:
    images = noise(2)
    large = geometry.enlarge(images, times=9, before=5, after=6)
    assert large.shape == (2, 299, 299, 3)
    np.testing.assert_array_equal(large[:, 5:293, 5:293], images.repeat(9, axis=1).repeat(9, axis=2))
    assert large.sum(dtype=int) == 81 * images.sum(dtype=int)  # and nothing but black outside


# What OpenCV 4.8.1 gives (COLOR_RGB2HLS), and what it makes of hue + 20, lightness - 30, saturation + 40.
RGB = [(255, 0, 0), (12, 200, 99), (30, 31, 200), (128, 128, 128), (250, 240, 10), (0, 0, 0), (255, 255, 255)]
HLS = [(0, 128, 255), (74, 106, 226), (120, 115, 188), (0, 128, 0), (29, 130, 245), (0, 0, 0), (0, 255, 0)]
CHANGED = [(196, 131, 0), (0, 132, 152), (110, 9, 161), (113, 103, 83), (73, 200, 0), (0, 0, 0), (230, 227, 220)]


def test_colours_are_those_of_opencv() -> None:
    image = np.array([[RGB]], np.uint8)
    assert np.stack(colour.to_hls(image), -1)[0, 0].tolist() == [list(map(float, values)) for values in HLS]
    changed = colour.changed(image, *(np.full((1, 1, 1), by, np.float32) for by in (20, -30, 40)))
    assert changed[0, 0].tolist() == [list(values) for values in CHANGED]


def hls_of(red: int, green: int, blue: int) -> Pixel:
    """OpenCV's documented formula, before it is rounded to eight bits."""
    r, g, b = red / 255, green / 255, blue / 255
    high, low = max(r, g, b), min(r, g, b)
    lightness, spread = (high + low) / 2, high - low
    if spread == 0:
        return 0, lightness * 255, 0
    saturation = spread / (high + low) if lightness < 0.5 else spread / (2 - high - low)
    if high == r:
        degrees = 60 * (g - b) / spread
    elif high == g:
        degrees = 120 + 60 * (b - r) / spread
    else:
        degrees = 240 + 60 * (r - g) / spread
    return degrees % 360 / 2, lightness * 255, saturation * 255


def rgb_of(hue: float, lightness: float, saturation: float) -> Pixel:
    """The sectors of the textbook, as in OpenCV."""
    light, strong = lightness / 255, saturation / 255
    high = light * (1 + strong) if light <= 0.5 else light + strong - light * strong
    low = 2 * light - high
    sector, fraction = divmod(hue / 30 % 6, 1)
    falling, rising = high - (high - low) * fraction, low + (high - low) * fraction
    red, green, blue = [
        (high, rising, low),
        (falling, high, low),
        (low, high, rising),
        (low, falling, high),
        (rising, low, high),
        (high, low, falling),
    ][int(sector)]
    return red * 255, green * 255, blue * 255


def test_conversion_to_hls_is_the_documented_formula() -> None:
    image = noise(1, size=24)
    expected = np.array([[hls_of(*map(int, pixel)) for pixel in row] for row in image[0]])
    off = np.abs(np.stack(colour.to_hls(image), -1)[0] - expected)
    assert off.max() < 0.5001  # rounded to the nearest


def test_conversion_from_hls_is_the_documented_formula() -> None:
    values = np.random.RandomState(5).randint(0, (181, 256, 256), (600, 3))
    expected = np.array([rgb_of(*pixel) for pixel in values])
    off = np.abs(colour.from_hls(*values.T.astype(np.float32)) - expected)
    assert off.max() < 0.5001


def test_jitter_adds_whole_numbers_within_their_limits_and_clips() -> None:
    draws = drawn(4000)
    for name, most in (("hue", 36), ("lightness", 50), ("saturation", 50)):
        offsets = colour.offsets(draws, name)
        assert set(np.unique(offsets).tolist()) == set(range(1 - most, most))
    bright = np.full((4000, 1, 1, 3), 230, np.uint8)  # has no saturation, and lightness beyond 255 is cut off
    changed = colour.jitter(bright, draws)
    lighter = colour.offsets(draws, "lightness")[:, 0, 0] + 230
    assert (changed[lighter >= 255] == 255).all()
    unsaturated = (lighter < 255) & (colour.offsets(draws, "saturation")[:, 0, 0] <= 0)
    np.testing.assert_array_equal(changed[unsaturated, 0, 0, 0], lighter[unsaturated])


def test_map_that_changes_nothing_gives_the_image_itself() -> None:
    images = noise(3)
    np.testing.assert_array_equal(warp.sample(images, np.tile(np.eye(2, 3), (3, 1, 1))), images)


def test_shift_by_half_a_pixel_is_the_mean_of_two_and_grey_lies_outside() -> None:
    right = np.array([[[1, 0, 0.5], [0, 1, 0]]])
    warped = warp.sample(numbered(4), right)
    assert warped[0, 0, :, 0].tolist() == [64, 1, 2, 3]  # (127 + 0) / 2 = 63.5, then 0.5, 1.5, 2.5, halves rounded up


def test_warped_pixels_are_those_of_opencv() -> None:
    image = (np.arange(48).reshape(1, 4, 4, 3) * 5).astype(np.uint8)
    warped = warp.sample(image, np.array([[[0.9, 0.2, 0.3], [-0.1, 1.1, -0.2]]]))
    assert warped[0].tolist() == [  # warpAffine of OpenCV 4.8.1, border 127
        [[53, 57, 60], [26, 31, 36], [48, 53, 58], [70, 75, 80]],
        [[99, 101, 103], [75, 80, 85], [99, 104, 109], [121, 126, 131]],
        [[124, 126, 127], [127, 132, 137], [149, 154, 159], [171, 176, 181]],
        [[128, 128, 129], [176, 181, 186], [196, 201, 206], [204, 208, 212]],
    ]


def weighed(image: Image, column: float, row: float) -> Image:
    """Bilinear interpolation at one place, with 127 outside."""
    left, top = math.floor(column), math.floor(row)
    total = np.zeros(3)
    for x, y in ((left, top), (left + 1, top), (left, top + 1), (left + 1, top + 1)):
        inside = 0 <= x < image.shape[1] and 0 <= y < image.shape[0]
        total += (1 - abs(column - x)) * (1 - abs(row - y)) * (image[y, x] if inside else 127.0)
    return total


def test_warp_is_bilinear_interpolation_to_a_32nd_of_a_pixel() -> None:
    draws, size = drawn(5), 16
    rows, columns = np.mgrid[:size, :size]
    gentle = np.stack([100 + 2 * rows, 127 + columns - rows, 150 - columns], -1)  # a 32nd of a pixel changes it little
    images = np.stack([gentle] * 5).astype(np.uint8)
    warped, forward = warp.affine(images, draws), warp.matrices(draws, size)
    for index in range(5):
        inverse = np.linalg.inv(np.vstack([forward[index], [0, 0, 1]]))
        origins = [[inverse @ (column, row, 1) for column in range(size)] for row in range(size)]
        expected = np.array([[weighed(images[index], x, y) for x, y, _ in row] for row in origins])
        assert np.abs(warped[index] - expected).max() < 0.5 + 100 / 32


def test_affine_maps_turn_shear_and_stretch_within_their_limits_about_the_centre() -> None:
    forward = warp.matrices(drawn(2000), 32)
    np.testing.assert_allclose(forward @ [16, 16, 1], np.full((2000, 2), 16))
    degrees = np.degrees(np.arctan2(-forward[:, 1, 0], forward[:, 1, 1]))
    assert set(np.rint(degrees).tolist()) == set(range(-10, 11))
    width = np.hypot(forward[:, 1, 0], forward[:, 1, 1])
    height = np.linalg.det(forward[:, :, :2]) / width
    ratio = width / height
    assert 0.75 <= ratio.min() < 0.76 and 1.24 < ratio.max() <= 1.25
    np.testing.assert_allclose(width + height, 2)
    shear = (forward[:, :, :2] * forward[:, 1:, :2]).sum(axis=2)[:, 0] / width**2
    assert -0.1 <= shear.min() < -0.095 and 0.095 < shear.max() <= 0.1


@pytest.mark.parametrize("count", [1, BLOCK - 1, BLOCK, 2 * BLOCK + 3])
def test_blocks_cover_every_image_once(count: int) -> None:
    images, values = noise(count, size=2), np.arange(count)[:, np.newaxis, np.newaxis, np.newaxis]
    np.testing.assert_array_equal(by_blocks(np.bitwise_xor, images, values), images ^ values)


def test_whitened_images_vary_alike_in_all_directions_but_for_the_ridge(tmp_path: Path) -> None:
    images = noise(500, size=3)
    fitted = whitening.fit(images)
    contrast = pixels.normalise_contrast(images).reshape(500, -1).astype(np.float64)
    values, vectors = np.linalg.eigh(np.cov(contrast.T) + 0.1 * np.eye(27))
    expected = (contrast - contrast.mean(axis=0)) @ (vectors @ np.diag(values**-0.5) @ vectors.T)
    whitened = fitted(pixels.normalise_contrast(images))
    assert whitened.shape == images.shape and whitened.dtype == np.float32
    np.testing.assert_allclose(whitened.reshape(500, -1), expected, atol=2e-4)
    np.testing.assert_allclose(
        np.cov(expected.T), np.eye(27) - 0.1 * np.linalg.inv(np.cov(contrast.T) + 0.1 * np.eye(27))
    )


def test_whitening_is_stored_beside_the_data_and_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images, labels = noise(60, size=2), np.zeros(60, np.uint8)
    dataset = Dataset(tmp_path, images, labels, images, labels)
    first = whitening.fitted(dataset)
    (stored,) = tmp_path.iterdir()  # and no unfinished file
    assert stored.name.startswith("whitening-") and stored.suffix == ".npz"
    monkeypatch.delattr(whitening, "fit")
    np.testing.assert_array_equal(whitening.fitted(dataset).matrix, first.matrix)
    with pytest.raises(NameError):
        whitening.fitted(Dataset(tmp_path, images ^ 1, labels, images, labels))  # other pixels need another fit
