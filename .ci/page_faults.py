"""Faults of a page of a console that its computed layout shows."""

# Returns the faults of a page. Contrast is checked by WCAG 2, AA; these pages have no text on a background that
# computed colours do not show.
FAULTS = """
const faults = [];
const wide = document.documentElement.scrollWidth - window.innerWidth;
if (wide > 0) faults.push(`${wide} px wider than the window`);
if (document.querySelectorAll('h1').length !== 1) faults.push('not one h1');
for (const it of document.querySelectorAll('table')) {
  if (!it.caption) faults.push('a table without a caption');
}
for (const it of document.querySelectorAll('th:not([scope])')) faults.push(`th without scope: ${it.textContent}`);
for (const it of document.querySelectorAll('input')) {
  if (!it.labels.length && !it.ariaLabel) faults.push(`input without label: ${it.name}`);
}
const parsed = (text) => text.match(/[\\d.]+/g).map(Number);
const luminance = ([r, g, b]) => {
  const [lr, lg, lb] = [r, g, b].map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * lr + 0.7152 * lg + 0.0722 * lb;
};
const ground = (element) => {
  for (let it = element; it; it = it.parentElement) {
    const colour = parsed(getComputedStyle(it).backgroundColor);
    if (colour.length < 4 || colour[3] === 1) return colour;
  }
  return [255, 255, 255];
};
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (texts.nextNode()) {
  const element = texts.currentNode.parentElement;
  const text = texts.currentNode.textContent.trim();
  if (!text || !element.checkVisibility()) continue;
  const lights = [parsed(getComputedStyle(element).color), ground(element)].map(luminance).sort((a, b) => b - a);
  const contrast = (lights[0] + 0.05) / (lights[1] + 0.05);
  if (contrast < 4.5) faults.push(`contrast ${contrast.toFixed(2)}: ${text.slice(0, 40)}`);
}
return faults;
"""
