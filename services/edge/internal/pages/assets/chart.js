// A chart shows the values of the day under the pointer, or of the one that the arrow keys have chosen. They are those of its
// table, where the series of a column are marked as in the legend.
'use strict'
const tip = document.createElement('div')
tip.className = 'tip'
tip.hidden = true
tip.setAttribute('role', 'status')
document.body.append(tip)
let shown = null // the picture, and the index of the day

const rowsOf = (picture) => picture.closest('.chart').querySelectorAll('tbody tr')

const hide = () => {
  shown = null
  tip.hidden = true
}

const show = (picture, index) => {
  const rows = rowsOf(picture)
  const row = rows[index]
  if (!row) return hide()
  shown = { picture, index }
  const chart = picture.closest('.chart')
  const names = chart.querySelectorAll('thead th')
  const swatches = chart.querySelectorAll('.legend .swatch')
  const list = document.createElement('dl')
  const cells = [...row.cells]
  cells.forEach((cell, i) => {
    const series = i > 0 && i <= swatches.length
    if (i === 0 || series && cell.textContent === '0') return
    const term = document.createElement('dt')
    const value = document.createElement('dd')
    if (series) term.append(swatches[i - 1].cloneNode())
    term.append(names[i].textContent)
    value.textContent = cell.textContent
    list.append(term, value)
  })
  const day = document.createElement('b')
  day.textContent = cells[0].textContent
  tip.replaceChildren(day, list)
  tip.hidden = false
  // Beside the day, on the side that has more room.
  const box = picture.getBoundingClientRect()
  const { days } = picture.dataset
  const slot = box.width / days
  const left = box.left + slot * index
  const { width } = tip.getBoundingClientRect()
  const right = left + slot + width < box.right
  tip.style.left = `${Math.max(0, right ? left + slot : left - width)}px`
  tip.style.top = `${Math.max(0, box.top)}px`
}

const at = (event) => {
  const picture = event.target.closest?.('.picture')
  if (!picture) return
  const box = picture.getBoundingClientRect()
  const { days } = picture.dataset
  show(picture, Math.min(days - 1, Math.max(0, Math.floor((event.clientX - box.left) / box.width * days))))
}

document.addEventListener('pointermove', at)
document.addEventListener('pointerdown', (event) => { if (!event.target.closest?.('.picture')) hide() })
document.addEventListener('pointerout', (event) => { if (event.target.closest?.('.picture') && !event.relatedTarget?.closest?.('.picture')) hide() })
document.addEventListener('focusin', (event) => {
  if (event.target.matches('.picture:focus-visible')) show(event.target, rowsOf(event.target).length - 1)
})
document.addEventListener('focusout', hide)
document.addEventListener('scroll', hide, { passive: true, capture: true })
document.addEventListener('keydown', (event) => {
  if (!event.target.matches?.('.picture')) return
  if (event.key === 'Escape') return hide()
  const last = rowsOf(event.target).length - 1
  const index = shown?.index ?? last
  const next = { ArrowLeft: index - 1, ArrowRight: index + 1, Home: 0, End: last }[event.key]
  if (next === undefined) return
  event.preventDefault()
  show(event.target, Math.min(last, Math.max(0, next)))
})
document.addEventListener('htmx:after:swap', () => { if (shown) shown.picture.isConnected ? show(shown.picture, shown.index) : hide() })
