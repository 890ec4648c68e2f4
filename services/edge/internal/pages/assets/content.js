// The lists of content: all of a list is selected at once, and files are uploaded with their progress.
'use strict'
for (const form of document.querySelectorAll('form[data-select]')) {
  const boxes = [...form.querySelectorAll('input[name=ref]')]
  const button = form.querySelector('button[type=submit]')
  const all = document.createElement('input')
  all.type = 'checkbox'
  all.ariaLabel = 'Select all'
  form.querySelector('thead th').replaceChildren(all)
  const count = () => {
    const selected = boxes.filter(({ checked }) => checked).length
    all.checked = selected === boxes.length
    all.indeterminate = selected > 0 && !all.checked
    button.disabled = selected === 0
  }
  all.addEventListener('change', () => {
    for (const box of boxes) box.checked = all.checked
    count()
  })
  form.addEventListener('change', count)
  count()
}

const upload = document.querySelector('form[data-upload]')
if (upload) {
  const field = upload.querySelector('input[type=file]')
  const list = upload.querySelector('.uploads')
  const button = upload.querySelector('button[type=submit]')
  const told = document.getElementById('upload-status')
  const mostBytes = 50 * 1024 * 1024
  field.multiple = true
  upload.querySelector('[data-drop-hint]').hidden = false

  const row = (file) => {
    const line = document.createElement('li')
    const [name, bar, says] = ['span', 'progress', 'span'].map((tag) => line.appendChild(document.createElement(tag)))
    name.textContent = file.name
    bar.max = file.size || 1
    bar.value = 0
    bar.ariaLabel = `Upload of ${file.name}`
    list.append(line)
    list.hidden = false
    return { bar, tell: (text, bad) => { says.textContent = text; says.className = bad ? 'error' : 'soft' }, name }
  }

  const hex = (bytes) => Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, '0')).join('')

  // The checksum is of what was read here: that of the answer has to be the same. A page without TLS can't make one.
  const checksum = async (file) => globalThis.crypto?.subtle ? hex(await crypto.subtle.digest('SHA-256', await file.arrayBuffer())) : ''

  const send = (body, onProgress) => new Promise((resolve, reject) => {
    const request = new XMLHttpRequest() // fetch tells no progress of what it sends
    request.open('POST', upload.action)
    request.setRequestHeader('Accept', 'application/json')
    request.upload.addEventListener('progress', onProgress)
    request.addEventListener('load', () => {
      try {
        resolve(JSON.parse(request.responseText))
      } catch {
        reject(new Error(`The server responded with ${request.status}.`))
      }
    })
    request.addEventListener('error', () => reject(new Error('The connection was lost. Check the list to see whether the file was uploaded.')))
    request.send(body)
  })

  const one = async (file) => {
    const { bar, tell, name } = row(file)
    if (file.size > mostBytes) return tell('Files can have up to 50 MB.', true)
    if (file.size === 0) return tell('The file is empty.', true)
    try {
      tell('Reading …')
      const sum = await checksum(file)
      const body = new FormData()
      for (const [key, value] of new FormData(upload)) if (key !== 'file') body.set(key, value)
      body.set('once', crypto.randomUUID?.() ?? String(Math.random()))
      body.set('file', file)
      const answer = await send(body, ({ loaded }) => {
        bar.value = Math.min(loaded, file.size)
        tell(`${Math.floor(100 * bar.value / bar.max)} %`)
      })
      if (answer.code === 'session_required') return tell('You have signed out. Sign in and upload it again.', true)
      bar.value = bar.max
      if (!answer.success) return tell([answer.reason, answer.suggestion].filter(Boolean).join(' '), true)
      const link = document.createElement('a')
      link.href = answer.url
      link.textContent = file.name
      name.replaceChildren(link)
      if (sum && sum !== answer.sha256) return tell('The checksums differ: the file was altered in transit. Delete it and upload it again.', true)
      tell(sum ? `Uploaded, SHA-256 ${answer.sha256}` : 'Uploaded')
      told.textContent = `${file.name} uploaded.`
    } catch (error) {
      tell(error.message, true)
    }
  }

  // One after the other: each is counted, and the first refusal says why.
  const all = async (files) => {
    button.disabled = true
    for (const file of files) await one(file)
    button.disabled = false
    field.value = ''
  }

  upload.addEventListener('submit', (event) => {
    event.preventDefault()
    all([...field.files])
  })
  const dropping = (on) => (event) => {
    if (!event.dataTransfer?.types.includes('Files')) return
    event.preventDefault()
    upload.classList.toggle('dropping', on)
  }
  upload.addEventListener('dragover', dropping(true))
  upload.addEventListener('dragleave', dropping(false))
  upload.addEventListener('drop', (event) => {
    dropping(false)(event)
    if (!button.disabled) all([...(event.dataTransfer?.files ?? [])])
  })
}
