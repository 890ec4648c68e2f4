// The part of a page with data-live moves: the server tells at that address when there is something new, and htmx gets it.
// Where no such connection can be kept, it is asked for every few seconds. A page that nobody sees rests.
'use strict'
const live = document.querySelector('[data-live]')
if (live) {
  const rest = 5000
  let source = null
  let heard = 0 // when the server last said something: that a connection is open says nothing of what a proxy lets through
  let over = false

  const refresh = () => live.dispatchEvent(new Event('refresh'))

  const close = () => {
    source?.close()
    source = null
  }

  const connect = () => {
    source = new EventSource(live.dataset.live)
    const hear = (event) => {
      heard = Date.now()
      if (event.type === 'message') refresh()
    }
    source.addEventListener('open', refresh) // for what came between the page and the connection
    for (const type of ['message', 'rest']) source.addEventListener(type, hear)
  }

  const look = () => {
    if (over) return
    if (document.hidden) return close()
    if (!source || source.readyState === EventSource.CLOSED) connect()
    if (Date.now() - heard > 4 * rest) refresh()
  }

  // A session that has ended is told beside the figures, which are not those of the account any more.
  const end = () => {
    over = true
    close()
    const told = document.getElementById('signed-out')
    if (!told) return
    live.before(told.content.cloneNode(true))
    document.getElementById('live-status').textContent = live.previousElementSibling.textContent
  }

  // What is no answer leaves the figures as they are.
  live.addEventListener('htmx:before:response', (event) => {
    const { status } = event.detail.ctx.response
    if (status !== 200) event.preventDefault()
    if (status === 401) end()
  })
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden && !over) {
      heard = 0
      look()
    }
  })
  setInterval(look, rest)
  connect()
}
