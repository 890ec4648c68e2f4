// What every page has: the theme, and keyboard shortcuts. Elements with data-keys are clicked, or focused if they are fields,
// by those keys: "n", or "g o" for one key after the other. The key ? lists them.
'use strict'
{
  const kept = {
    get: (name) => { try { return localStorage.getItem(name) } catch { return null } },
    set: (name, value) => {
      try {
        if (value === null) localStorage.removeItem(name)
        else localStorage.setItem(name, value)
      } catch {
        // a browser that keeps nothing
      }
    },
  }

  // The script in the head has set the theme before anything was painted.
  const theme = document.getElementById('site-theme')
  const paint = (name) => {
    if (name === 'light' || name === 'dark') document.documentElement.dataset.theme = name
    else delete document.documentElement.dataset.theme
    theme.value = document.documentElement.dataset.theme ?? ''
  }
  paint(kept.get('quire.theme'))
  theme.addEventListener('change', () => {
    kept.set('quire.theme', theme.value || null)
    paint(theme.value)
  })
  addEventListener('storage', ({ key, newValue }) => { if (key === 'quire.theme') paint(newValue) })
  document.getElementById('site-choices').hidden = false

  const off = 'quire.shortcuts'
  const shown = (element) => element.getClientRects().length > 0
  // The first one of each key counts: a search beside the page and on it, for example.
  const bound = () => [...document.querySelectorAll('[data-keys]')].filter(shown)
    .filter((element, i, all) => all.findIndex(({ dataset }) => dataset.keys === element.dataset.keys) === i)

  const nameOf = (element) => element.getAttribute('aria-label') ?? element.labels?.[0]?.textContent ?? element.textContent.trim()

  const help = document.createElement('dialog')
  help.className = 'shortcuts'
  help.setAttribute('aria-labelledby', 'shortcuts-title')
  document.body.append(help)

  const keys = (text) => text.split(' ').flatMap((key, i) => {
    const element = document.createElement('kbd')
    element.textContent = key
    return i ? [' then ', element] : [element]
  })

  const ask = () => {
    const title = document.createElement('h2')
    title.id = 'shortcuts-title'
    title.textContent = 'Keyboard shortcuts'
    const list = document.createElement('dl')
    const line = (text, name) => {
      const term = document.createElement('dt')
      term.append(...keys(text))
      const about = document.createElement('dd')
      about.textContent = name
      list.append(term, about)
    }
    for (const element of bound()) line(element.dataset.keys, nameOf(element))
    line('?', 'Show this list')
    const form = document.createElement('form')
    form.method = 'dialog'
    const label = document.createElement('label')
    const box = document.createElement('input')
    box.type = 'checkbox'
    box.checked = kept.get(off) !== 'off'
    box.addEventListener('change', () => kept.set(off, box.checked ? null : 'off'))
    label.append(box, ' Use single-key shortcuts')
    const close = document.createElement('button')
    close.className = 'quiet'
    close.textContent = 'Close'
    form.append(label, close)
    help.replaceChildren(title, list, form)
    help.showModal()
  }
  document.getElementById('site-shortcuts').addEventListener('click', ask)

  let first = '' // of two keys
  let forget
  document.addEventListener('keydown', (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing || help.open || kept.get(off) === 'off') return
    if (event.target.closest?.('input:not([type=checkbox], [type=radio]), select, textarea, [contenteditable]')) return
    const typed = first ? `${first} ${event.key}` : event.key
    first = ''
    clearTimeout(forget)
    if (event.key === '?') return ask()
    const elements = bound()
    const found = elements.find(({ dataset }) => dataset.keys === typed)
    if (found) {
      event.preventDefault()
      if (found.matches('input, select, textarea')) found.focus()
      else found.click()
    } else if (elements.some(({ dataset }) => dataset.keys.startsWith(`${typed} `))) {
      first = typed
      forget = setTimeout(() => { first = '' }, 1500)
    }
  })
}
