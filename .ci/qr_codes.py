"""Creates links, reads their QR codes from the API at API_URL, and decodes the images with zbarimg.

usage: qr_codes.py FOLDER
"""

import json
import os
import random
import re
import subprocess
import sys
import urllib.parse
import urllib.request
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

LINKS = 200
LEVELS = "LMQH"
FORMATS = ("svg", "png")
# Slugs of all lengths from two characters on; the random numbers have a seed.
SLUG_LENGTHS = range(2, 65)
SLUG_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
# Pixels of a module, so that a decoder is asked to read what a camera can read.
SIZES = (256, 300, 511, 1024)
COLORS = (("000000", "ffffff"), ("102a43", "fff8e1"), ("767676", "ffffff"))
IMAGES_AT_ONCE = 100
REQUESTS_AT_ONCE = 4

API_URL = os.environ["API_URL"]
API_KEY = os.environ["API_KEY"]


def request(path, body=None):
    """Returns the body of the answer."""
    headers = {"Authorization": f"Bearer {API_KEY}"}
    if body is not None:
        body = json.dumps(body).encode()
        headers |= {"Content-Type": "application/json", "Idempotency-Key": str(uuid.uuid4())}
    sent = urllib.request.Request(API_URL + path, data=body, headers=headers)
    with urllib.request.urlopen(sent, timeout=30) as answer:
        return answer.read()


def create_links(chance):
    """Returns links with slugs of all lengths, by id."""
    links = {}
    for number in range(LINKS):
        length = SLUG_LENGTHS[number % len(SLUG_LENGTHS)]
        inner = "".join(chance.choices(SLUG_LETTERS, k=length))
        slug = f"{chance.choice('abcxyz')}{inner[2:]}{number % 10}"
        link = json.loads(request("/v1/links", {"destination_url": "https://example.com/", "slug": slug}))
        links[link["id"]] = link["short_url"]
    return links


def draw(job):
    """Saves an image as PNG, and returns its path."""
    folder, link_id, level, image_format, size, (color, background) = job
    query = urllib.parse.urlencode(
        {"format": image_format, "ecc": level, "size": size, "color": color, "background": background}
    )
    image = request(f"/v1/links/{link_id}/qr?{query}")
    path = folder / f"{link_id}-{level}-{image_format}.png"
    if image_format == "png":
        path.write_bytes(image)
    else:
        subprocess.run(["rsvg-convert", "--output", str(path)], input=image, check=True, timeout=30)
    return path


def decode(paths):
    """Returns the decoded text of each image, by path."""
    # Only QR codes: among enough images, the rows of modules look like a barcode of Codabar somewhere.
    command = ["zbarimg", "--quiet", "--xml", "--nodbus", "-Sdisable", "-Sqrcode.enable", *map(str, paths)]
    # The status says whether every image has a code; a missing one is named by the caller.
    decoded = subprocess.run(command, capture_output=True, text=True, timeout=300).stdout
    texts = {}
    for path, source in re.findall(r"<source href='([^']*)'>(.*?)</source>", decoded, re.DOTALL):
        texts[Path(path)] = re.findall(r"<!\[CDATA\[(.*?)\]\]>", source, re.DOTALL)
    return texts


def main():
    folder = Path(sys.argv[1])
    chance = random.Random(20261124)
    links = create_links(chance)
    jobs = [
        (folder, link_id, level, image_format, chance.choice(SIZES), chance.choice(COLORS))
        for link_id in links
        for level in LEVELS
        for image_format in FORMATS
    ]
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as threads:
        paths = list(threads.map(draw, jobs))
    texts = {}
    for first in range(0, len(paths), IMAGES_AT_ONCE):
        texts |= decode(paths[first : first + IMAGES_AT_ONCE])
    wrong = [
        (path.name, job[2:], texts.get(path))
        for path, job in zip(paths, jobs)
        if texts.get(path) != [links[job[1]]]
    ]
    for image in wrong[:20]:
        print(*image, file=sys.stderr)
    if wrong:
        sys.exit(f"{len(wrong)} of {len(paths)} codes were not decoded to their short address")
    print(f"{len(paths)} codes of {len(links)} links were decoded by zbarimg")


main()
