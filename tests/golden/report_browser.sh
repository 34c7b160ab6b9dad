#!/usr/bin/env bash
# The reports in a real browser: 400, 1280 and 3840 pixels wide, light and dark, keyboard, labels, paper. Skipped (77) where there is no Chromium. usage: report_browser.sh BINARY
chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || { echo "no Chromium here: apt install chromium"; exit 77; }
. "$(dirname "$0")/command.bash"
run 0 report "$here/../../scenarios/gpt3-175b-dgx-a100.json" --out "$folder/step.html" --quiet --quick --tokens 300e9 --days 60 --electricity 0.12
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
  for (const box of d.querySelectorAll('.scroll')) {
    if (w.getComputedStyle(box).overflowX !== 'auto') { say('BAD what is too wide is cut: ' + box.textContent.trim().slice(0, 60)); break; }
    if (width >= 1280 && box.checkVisibility() && box.scrollWidth > box.clientWidth + 1) say('BAD has to be scrolled sideways, ' + box.scrollWidth + ' in ' + box.clientWidth + ': ' + box.textContent.trim().slice(0, 60));
  }
  for (const cell of d.querySelectorAll('tbody th,tbody td'))
    if (cell.checkVisibility() && cell.scrollWidth > cell.clientWidth + 1) { say('BAD a cell runs into the next: ' + cell.textContent); break; }
  const table = [...d.querySelectorAll('table')].find(t => t.caption.textContent.startsWith('Money'));
  if (page === 'step' && !(table && table.parentElement.scrollWidth <= table.parentElement.clientWidth + 1)) say('BAD what it costs is beyond the edge');
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
# What a screen reader is told, and where the tab key leads: the browser's own accessibility tree, over its debugging pipe.
if command -v python3 >/dev/null; then
    timeout 300 python3 - "$chromium" "$folder" <<'PY'
import json, os, subprocess, sys, time
chromium, folder = sys.argv[1:]
to_read, to_write = os.pipe()      # what we say: the browser reads it at 3
from_read, from_write = os.pipe()  # what it answers: it writes it at 4
def child():
    os.dup2(to_read, 100); os.dup2(from_write, 101)  # not below 5, so that neither is closed by the other
    os.dup2(100, 3); os.dup2(101, 4)
browser = subprocess.Popen([chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--force-renderer-accessibility",
                            "--user-data-dir=" + folder + "/profile-tree", "--window-size=1280,900", "about:blank"],
                           preexec_fn=child, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
os.close(to_read); os.close(from_write)
pending, count = b"", 0
def receive():
    global pending
    while b"\0" not in pending:
        got = os.read(from_read, 1 << 16)
        assert got, "the browser has gone"
        pending += got
    message, pending = pending.split(b"\0", 1)
    return json.loads(message)
def call(method, session=None, **parameters):
    global count
    count += 1
    message = {"id": count, "method": method, "params": parameters}
    if session: message["sessionId"] = session
    os.write(to_write, json.dumps(message).encode() + b"\0")
    while True:
        answer = receive()
        if answer.get("id") == count:
            assert "error" not in answer, (method, answer["error"])
            return answer["result"]
def value(session, script):
    answer = call("Runtime.evaluate", session, expression=script, returnByValue=True)
    assert "exceptionDetails" not in answer, answer
    return answer["result"].get("value")

WANTED = {"step": {"over time": 4, "tables": 5}, "sweep": {"over time": 0, "tables": 3}}
def look(page):
    target = call("Target.createTarget", url="file://%s/%s.html" % (folder, page))["targetId"]
    session = call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    while value(session, "location.protocol + document.readyState") != "file:complete": pass
    call("Accessibility.enable", session)
    nodes, before = call("Accessibility.getFullAXTree", session)["nodes"], 0
    while len(nodes) != before:  # the tree is built beside the page: two looks that say the same
        time.sleep(0.5)
        before, nodes = len(nodes), call("Accessibility.getFullAXTree", session)["nodes"]
    by_id = {n["nodeId"]: n for n in nodes}
    seen = [n for n in nodes if not n["ignored"]]
    role = lambda n: n.get("role", {}).get("value", "")
    name = lambda n: n.get("name", {}).get("value", "")
    prop = lambda n, key: next((p["value"] for p in n.get("properties", []) if p["name"] == key), {})
    def inside(n, wanted):  # all nodes of that role below
        found, left = [], list(n.get("childIds", []))
        while left:
            at = by_id.get(left.pop())
            if at:
                found += [at] if role(at) == wanted else []
                left += at.get("childIds", [])
        return found
    has = lambda what: [n for n in seen if role(n) in what]
    assert len(has(("main",))) == 1 and has(("navigation",)), "landmarks"
    heads = has(("heading",))
    assert [prop(n, "level").get("value") for n in heads][0] == 1 and all(name(n) for n in heads), "headings"
    assert all(name(n) for n in has(("region",))), "a region without a name"
    links = has(("link",))
    assert links and all(name(n) for n in links), "a link without a name"
    pictures = has(("image", "img", "graphics-document"))
    assert pictures and all(len(name(n)) > 10 for n in pictures), [name(n) for n in pictures]
    assert len({name(n) for n in pictures}) == len(pictures), "two pictures of one name"
    for n in pictures:  # each says where the same stands in figures, and that is there
        related = prop(n, "details").get("relatedNodes", [])
        assert related, "no table for " + name(n)
        box = next((m for m in nodes if m.get("backendDOMNodeId") == related[0]["backendDOMNodeId"]), None)
        assert box is not None and not box["ignored"], "what belongs to %s is not in the tree" % name(n)
        assert inside(box, "table") or inside(box, "DisclosureTriangle") or "details" in role(box).lower(), (name(n), role(box))
    assert sum("over time" in name(n) for n in pictures) >= WANTED[page]["over time"], [name(n) for n in pictures]
    tables = has(("table",))
    assert len(tables) >= WANTED[page]["tables"] and all(name(n) for n in tables), (len(tables), "a table without a name")
    for n in tables:
        assert inside(n, "columnheader") and (inside(n, "rowheader") or len(inside(n, "row")) == 1), "a table without headings: " + name(n)
    # folded parts unfold, and then say all there is
    value(session, "document.querySelectorAll('details').forEach(d => d.open = true)")
    unfolded = [n for n in call("Accessibility.getFullAXTree", session)["nodes"] if not n["ignored"] and role(n) == "table"]
    assert len(unfolded) == value(session, "document.querySelectorAll('table').length") and all(name(n) for n in unfolded), "a table is not in the tree"
    value(session, "document.querySelectorAll('details').forEach(d => d.open = false)")
    # the tab key reaches every link, fold, picture over time and box that scrolls, in the order of the page
    wanted = value(session, "[...document.querySelectorAll('a[href],summary,svg[tabindex],.scroll')].filter(e => e.checkVisibility()).length")
    where = "(e => e === document.body ? -1 : [...document.querySelectorAll('*')].indexOf(e))(document.activeElement)"
    order = []
    for _ in range(wanted + 1):
        for kind in ("rawKeyDown", "keyUp"):
            call("Input.dispatchKeyEvent", session, type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
        at = value(session, where)
        if at < 0 or (order and at <= order[-1]): break
        order.append(at)
        outline = value(session, "getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", "the focus is not seen"
    assert len(order) == wanted, (page, len(order), wanted)
    # arrow keys in the first picture over time
    if value(session, "!!document.querySelector('svg[data-unit]')"):
        value(session, "document.querySelector('svg[data-unit]').focus()")
        for kind in ("rawKeyDown", "keyUp"):
            call("Input.dispatchKeyEvent", session, type=kind, key="ArrowRight", code="ArrowRight", windowsVirtualKeyCode=39)
        assert value(session, "document.querySelector('svg[data-unit] .cross').style.display") == "", "arrow keys show no time"
    # on paper nothing can be scrolled: A4 less its margins is 184 mm, which are 695 pixels
    call("Emulation.setEmulatedMedia", session, media="print")
    call("Emulation.setDeviceMetricsOverride", session, width=695, height=1000, deviceScaleFactor=1, mobile=False)
    value(session, "document.querySelectorAll('details').forEach(d => d.open = true)")
    cut = value(session, "[...document.querySelectorAll('table,svg.wide,pre,dl')].filter(e => e.getBoundingClientRect().right > 696).map(e => e.textContent.slice(0, 60) + ' ' + e.getBoundingClientRect().right)")
    assert not cut, ("cut on paper", cut)
    print("     %s: %d pictures, %d tables (%d unfolded), %d stops of the tab key" % (page, len(pictures), len(tables), len(unfolded), len(order)))
    call("Target.closeTarget", targetId=target)
try:
    for page in WANTED:
        look(page)
    call("Browser.close")
finally:
    browser.kill()
    browser.wait()
PY
    expect "accessibility tree: landmarks, headings, named pictures with their tables, tab order" $?
fi
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
