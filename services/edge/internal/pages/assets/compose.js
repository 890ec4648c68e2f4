// The box to paste into: Ctrl+Enter sends it, and a file that is dropped on it becomes its text.
'use strict'
const form = document.getElementById('compose')
const content = document.getElementById('content')
const title = document.getElementById('title')
const mostBytes = 256 * 1024

form.addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
    event.preventDefault()
    form.requestSubmit()
  }
})

const dropping = (on) => (event) => {
  if (!event.dataTransfer?.types.includes('Files')) return
  event.preventDefault()
  form.classList.toggle('dropping', on)
}
content.addEventListener('dragover', dropping(true))
content.addEventListener('dragleave', dropping(false))
content.addEventListener('drop', async (event) => {
  dropping(false)(event)
  const file = event.dataTransfer?.files[0]
  if (!file) return
  event.preventDefault()
  let problem = ''
  if (file.size > mostBytes) {
    problem = 'Quick pastes can have up to 256 KiB. With an account, files can have up to 50 MB.'
  } else {
    try {
      content.value = new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer())
      title.value ||= file.name.slice(0, 200)
    } catch {
      problem = 'This is not text. With an account, you can upload files of any kind.'
    }
  }
  content.setCustomValidity(problem)
  if (problem) content.reportValidity()
})
content.addEventListener('input', () => content.setCustomValidity(''))
