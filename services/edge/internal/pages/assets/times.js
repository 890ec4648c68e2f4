// Times are in UTC as the server writes them. They become the reader's own, with UTC and the distance to now beside.
'use strict'
const units = [['year', 31536000], ['month', 2592000], ['day', 86400], ['hour', 3600], ['minute', 60]]
const relative = new Intl.RelativeTimeFormat(document.documentElement.lang, { numeric: 'auto' })
const exact = {
  year: 'numeric', month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3,
}
const localize = (root) => {
  for (const time of root.querySelectorAll('time[datetime]')) {
    const at = new Date(time.dateTime)
    if (Number.isNaN(at.getTime())) continue
    const seconds = (at.getTime() - Date.now()) / 1000
    const [unit, size] = units.find(([, size]) => Math.abs(seconds) >= size) ?? ['minute', 60]
    const written = at.toLocaleString(undefined, 'exact' in time.dataset ? exact : { dateStyle: 'medium', timeStyle: 'short' })
    if (time.textContent === written) continue
    time.title = `${time.textContent}, ${relative.format(Math.round(seconds / size), unit)}`
    time.textContent = written
  }
}
localize(document)
document.addEventListener('htmx:after:swap', () => localize(document))
