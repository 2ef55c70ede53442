() => {
  const faults = [], seen = (e) => e.getClientRects().length > 0;
  const named = (e) => (e.getAttribute('aria-label') || e.textContent || '').trim() !== ''
    || [...(e.labels || [])].some((l) => l.textContent.trim() !== '');
  const all = (q) => [...document.querySelectorAll(q)];
  for (const e of all('input:not([type=hidden]), select, textarea')) if (seen(e) && !named(e)) faults.push('no label: ' + e.outerHTML.slice(0, 90));
  for (const e of all('a, button, summary')) if (seen(e) && !named(e)) faults.push('no name: ' + e.outerHTML.slice(0, 90));
  for (const e of all('progress, meter')) if (!e.hasAttribute('aria-label')) faults.push('no name: progress');
  for (const e of all('svg')) if (e.getAttribute('aria-hidden') !== 'true' && !(e.getAttribute('role') === 'img' && e.getAttribute('aria-label'))) faults.push('svg without a name');
  for (const e of all('th')) if (!e.hasAttribute('scope')) faults.push('th without scope');
  for (const e of all('[aria-labelledby], [aria-describedby], label[for]')) for (const key of ['aria-labelledby', 'aria-describedby', 'for'])
    for (const id of (e.getAttribute(key) || '').split(' ').filter(Boolean)) if (!document.getElementById(id)) faults.push(key + ' to missing ' + id);
  const ids = all('[id]').map((e) => e.id);
  for (const id of new Set(ids)) if (ids.filter((other) => other === id).length > 1) faults.push('id twice: ' + id);
  if (all('h1').length !== 1) faults.push('headings of the first level: ' + all('h1').length);
  let level = 1;
  for (const e of all('h1, h2, h3')) { const own = Number(e.tagName[1]); if (own > level + 1) faults.push(e.tagName + ' after h' + level); level = own; }
  // as it was served: tools that look at a page leave styles behind
  if (!window.lookedAt && all('[style], style, script:not([src])').length) faults.push('something inline');
  window.lookedAt = true;
  const width = document.documentElement.scrollWidth;
  if (width > innerWidth + 1) faults.push('wider than the window: ' + width + ' ' + all('body *').filter((e) => e.getBoundingClientRect().right >= width - 1).slice(-2).map((e) => e.outerHTML.slice(0, 160)).join(' '));
  return faults;
}
