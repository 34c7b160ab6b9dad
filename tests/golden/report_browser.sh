#!/usr/bin/env bash
# The reports in a real browser: 400, 1280 and 3840 pixels wide, light and dark, keyboard, labels, paper. Skipped (77) where there is no Chromium. usage: report_browser.sh BINARY
chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || { echo "no Chromium here: apt install chromium"; exit 77; }
. "$(dirname "$0")/command.bash"
run 0 report "$here/../../scenarios/gpt3-175b-dgx-a100.json" --out "$folder/step.html" --quiet --quick
run 0 sweep "$here/../../scenarios/sweeps/gpt2-xl-one-gpu.json" --db "$folder/s.db" --quiet
run 0 report "$folder/s.db" --out "$folder/sweep.html"

# Each page in a frame of each width; what a person would look at is measured, complaints go into #found.
cat >"$folder/frames.html" <<'HTML'
<!DOCTYPE html><meta charset="utf-8"><body><pre id="found"></pre><script>
const found = [], widths = [400, 1280, 3840], pages = ['step', 'sweep'];
function luminance(c) {
  const v = c.match(/[\d.]+/g).slice(0, 3).map(x => x / 255).map(x => x <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4);
  return .2126 * v[0] + .7152 * v[1] + .0722 * v[2];
}
function contrast(a, b) { const x = luminance(a), y = luminance(b); return (Math.max(x, y) + .05) / (Math.min(x, y) + .05); }
function look(page, width, frame) {
  const d = frame.contentDocument, w = frame.contentWindow, root = d.documentElement, where = page + ' at ' + width;
  const say = what => found.push(where + ': ' + what);
  const ground = w.getComputedStyle(root).backgroundColor, ink = w.getComputedStyle(d.body).color;
  say('ground ' + (luminance(ground) < .05 ? 'dark' : luminance(ground) > .9 ? 'light' : 'neither dark nor light'));
  if (root.scrollWidth > root.clientWidth) say('BAD the page itself scrolls sideways: ' + root.scrollWidth);
  if (contrast(ink, ground) < 7) say('BAD text hard to read');
  for (const e of d.querySelectorAll('.soft,.good,.bad,a,summary,caption'))
    if (contrast(w.getComputedStyle(e).color, ground) < 4.5) { say('BAD ' + e.className + e.tagName + ' hard to read'); break; }
  const pictures = [...d.querySelectorAll('svg.wide')];
  if (pictures.length === 0) say('BAD no picture');
  for (const s of pictures) {
    const r = s.getBoundingClientRect(), scale = r.width / s.viewBox.baseVal.width;
    if (r.width < 300 || r.height < 100) say('BAD a picture of ' + r.width + ' by ' + r.height);
    if (12 * scale < 9) say('BAD type of ' + 12 * scale + ' pixels in a picture');
    for (const t of s.querySelectorAll('text')) {
      const b = t.getBoundingClientRect();
      if (b.width && (b.left < r.left - 1 || b.right > r.right + 1 || b.top < r.top - 1 || b.bottom > r.bottom + 1)) { say('BAD a label sticks out: ' + t.textContent); break; }
    }
    for (const p of s.querySelectorAll('path'))
      if (p.getAttribute('d') && w.getComputedStyle(p).fill === ground) { say('BAD a shape in the colour of the ground'); break; }
  }
  const timed = d.querySelector('svg[data-unit]');
  if (page === 'step' && timed) {
    timed.focus();
    timed.dispatchEvent(new w.KeyboardEvent('keydown', { key: 'ArrowRight' }));
    const cross = timed.querySelector('.cross');
    if (!cross || cross.style.display === 'none' || !timed.lastChild.textContent.endsWith(timed.dataset.unit)) say('BAD arrow keys show no time');
  } else if (page === 'step') say('BAD no picture with a time axis');
  const skip = d.querySelector('a');
  if (!skip.classList.contains('skip') || skip.getBoundingClientRect().right > 0) say('BAD the skip link is not first, or seen');
  skip.focus();
  if (d.activeElement !== skip || skip.getBoundingClientRect().left < 0) say('BAD the skip link does not come when focused');
  for (const box of d.querySelectorAll('.scroll'))
    if (box.tabIndex !== 0 || !(box.getAttribute('aria-label') || box.getAttribute('aria-labelledby'))) { say('BAD a box that scrolls cannot be reached by keyboard'); break; }
  w.dispatchEvent(new w.Event('beforeprint'));
  if ([...d.querySelectorAll('details')].some(e => !e.open)) say('BAD something stays folded on paper');
  if (root.scrollWidth > root.clientWidth) say('BAD unfolded, the page itself scrolls sideways: ' + root.scrollWidth);
}
let left = pages.length * widths.length;
for (const page of pages) for (const width of widths) {
  const frame = document.createElement('iframe');
  frame.style = 'border:0;height:900px;width:' + width + 'px';
  frame.onload = () => {
    try { look(page, width, frame); } catch (e) { found.push('BAD ' + e); }
    if (--left === 0) document.getElementById('found').textContent = '\n' + found.sort().join('\n') + '\nlooked at everything\n';
  };
  frame.src = page + '.html';
  document.body.append(frame);
}
</script>
HTML

browse() { # arguments
    timeout 300 "$chromium" --headless=new --no-sandbox --disable-gpu --allow-file-access-from-files --hide-scrollbars --user-data-dir="$folder/profile" "$@" 2>"$folder/err"
}

for scheme in 0 1; do
    word=$([ $scheme = 0 ] && echo dark || echo light)
    browse --blink-settings=preferredColorScheme=$scheme --virtual-time-budget=20000 --window-size=3840,2000 --dump-dom "file://$folder/frames.html" >"$folder/out"
    holds "looked at everything"
    [ "$(grep -c "ground $word$" "$folder/out")" = 6 ]
    expect "  $word where $word is wished" $?
    ! grep -E "^((step|sweep) at [0-9]+: )?BAD" "$folder/out"
    expect "  $word: fits, labels, contrast, keyboard at 400, 1280 and 3840 pixels" $?
done
browse --no-pdf-header-footer --print-to-pdf="$folder/step.pdf" "file://$folder/step.html" >/dev/null
[ "$(head -c 5 "$folder/step.pdf")" = "%PDF-" ] && [ "$(wc -c <"$folder/step.pdf")" -gt 100000 ]
expect "prints" $?
# For a person to look at: KEEP=DIR leaves screenshots there.
if [ -n "${KEEP:-}" ]; then
    mkdir -p "$KEEP"
    cp "$folder"/*.html "$KEEP"
    for page in step sweep; do
        for width in 500 1280 3840; do
            for scheme in 0 1; do
                browse --blink-settings=preferredColorScheme=$scheme --window-size=$width,2400 --screenshot="$KEEP/$page-$width-$scheme.png" "file://$folder/$page.html" >/dev/null
            done
        done
    done
fi
exit $((failures > 0))
