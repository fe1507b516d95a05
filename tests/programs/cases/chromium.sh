packages='chromium'
needs='chromium'
maps='chromium'
long=yes
limit=300
stderr=varies

prepare() {
    cat >page.html <<'HTML'
<!doctype html><title>work</title><body><div id=out></div><canvas id=c width=64 height=64></canvas>
<script>
const rows = [];
for (let i = 0; i < 20000; i++) rows.push({ id: i, name: 'n' + i * 7919 % 10007, tags: [i, i + 1] });
const text = JSON.stringify(rows);
const words = JSON.parse(text).sort((a, b) => a.name < b.name ? -1 : a.name > b.name ? 1 : a.id - b.id);
const list = document.createElement('ul');
for (const row of words.slice(0, 500)) { const li = document.createElement('li'); li.textContent = row.name; list.append(li); }
document.body.append(list);
const g = document.getElementById('c').getContext('2d');
g.fillStyle = '#369'; g.fillRect(8, 8, 40, 40);
document.getElementById('out').textContent = text.length + ' ' + g.getImageData(10, 10, 1, 1).data.join(' ');
</script>
HTML
}

measure() {
    # Its processes have no sandbox here, which would need a separate user.
    chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$PWD/profile" \
        --virtual-time-budget=3000 --dump-dom "file://$shared/page.html" 2>chromium.log >dom.html
    grep -c '<li>' dom.html
    sed -n 's/.*<div id="out">\([^<]*\)<.*/\1/p' dom.html
    md5sum <dom.html
}
