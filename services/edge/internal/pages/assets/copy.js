// Buttons with data-copy="<id>" copy the text of that element. They are hidden where no script runs. A field with data-selected
// is selected from the start.
'use strict'
document.querySelector('input[data-selected]')?.select()
for (const button of document.querySelectorAll('button[data-copy]')) {
  const source = document.getElementById(button.dataset.copy)
  if (!source) continue
  const name = button.textContent
  let back
  button.hidden = false
  button.addEventListener('click', async () => {
    const text = 'value' in source ? source.value : source.textContent
    let copied = true
    try {
      await navigator.clipboard.writeText(text) // only where the page is secure
    } catch {
      if (source.select) {
        source.select()
      } else {
        const range = document.createRange()
        range.selectNodeContents(source)
        const selection = getSelection()
        selection.removeAllRanges()
        selection.addRange(range)
      }
      copied = document.execCommand('copy')
    }
    button.textContent = copied ? 'Copied' : 'Press Ctrl+C'
    announce(copied ? 'Copied' : 'The text is selected. Press Control and C to copy it.')
    clearTimeout(back)
    back = setTimeout(() => { button.textContent = name }, 2000)
  })
}

// announce has a screen reader say a text.
function announce(text) {
  let status = document.getElementById('announced')
  if (!status) {
    status = document.createElement('p')
    status.id = 'announced'
    status.className = 'hidden'
    status.setAttribute('role', 'status')
    document.body.append(status)
  }
  status.textContent = text
}
