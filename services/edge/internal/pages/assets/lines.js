// The lines of a text: #L10 and #L10-L20, a click and a click with Shift, a box for the number, and wrapping.
'use strict'
const text = document.getElementById('text')
if (text) {
  const frame = text.parentElement
  const go = document.getElementById('go')
  const field = document.getElementById('go-line')
  let on = []

  const parse = (hash) => {
    const found = /^#L([0-9]+)(?:-L?([0-9]+))?$/.exec(hash)
    if (!found) return null
    const [first, last] = [Number(found[1]), Number(found[2] ?? found[1])]
    return first <= last ? [first, last] : [last, first]
  }

  // show marks the lines of the address and brings them into view.
  const show = (scroll) => {
    for (const line of on) line.classList.remove('on')
    on = []
    const range = parse(location.hash)
    if (!range) return
    const [first, last] = [range[0], Math.min(range[1], text.children.length)]
    for (let n = first; n <= last; n++) {
      const line = document.getElementById('L' + n)
      if (!line) continue
      line.classList.add('on')
      on.push(line)
    }
    field.value = first === range[1] ? first : `${first}-${range[1]}`
    if (scroll && on.length) on[0].scrollIntoView({ block: 'start' })
  }

  const select = (first, last, scroll) => {
    history.pushState(null, '', first === last ? `#L${first}` : `#L${Math.min(first, last)}-L${Math.max(first, last)}`)
    show(scroll)
  }

  text.addEventListener('click', (event) => {
    const number = event.target.closest('.line > a')
    if (!number || event.ctrlKey || event.metaKey) return
    event.preventDefault()
    const n = Number(number.dataset.n)
    const range = parse(location.hash)
    select(event.shiftKey && range ? range[0] : n, n, false)
  })
  go.hidden = false
  go.addEventListener('submit', (event) => {
    event.preventDefault()
    const range = parse('#L' + field.value.trim())
    if (range) select(range[0], range[1], true)
    frame.focus({ preventScroll: true })
  })
  addEventListener('hashchange', () => show(true))
  addEventListener('popstate', () => show(false))
  show(true)

  const wrap = document.getElementById('wrap')
  const kept = 'quire.wrap'
  const setWrap = (value) => {
    frame.classList.toggle('wrapped', value)
    wrap.setAttribute('aria-pressed', String(value))
  }
  wrap.hidden = false
  try {
    setWrap(localStorage.getItem(kept) === 'yes')
  } catch {
    // a browser that keeps nothing
  }
  wrap.addEventListener('click', () => {
    const value = wrap.getAttribute('aria-pressed') !== 'true'
    setWrap(value)
    try {
      localStorage.setItem(kept, value ? 'yes' : 'no')
    } catch {
      // likewise
    }
  })
}
