// The field for a text: line numbers, indentation, a preview, the detected language, files that are dropped or pasted, and a text
// that survives a reload. Without this script it is a plain text area.
'use strict'
const maxFileBytes = 50 * 1024 * 1024

const edit = (editor) => {
  const area = editor.querySelector('textarea')
  const form = area.form
  const box = editor.querySelector('.editor-box')
  const { title, language } = form.elements
  const send = form.querySelector('button[type=submit]:not([data-preview])')
  const says = editor.querySelector('.editor-says')

  const say = (text, bad = false) => {
    says.textContent = text
    says.classList.toggle('error', bad)
  }

  // Runs what a browser that keeps nothing, or not so much, refuses.
  const quietly = (run) => () => {
    try {
      run()
    } catch {}
  }

  const later = (ms, run) => {
    let timer
    return () => {
      clearTimeout(timer)
      timer = setTimeout(run, ms)
    }
  }

  // Posts fields, and returns the answer. A failure is thrown with its reason.
  const post = async (address, body) => {
    const answer = await fetch(address, { method: 'POST', headers: { accept: 'application/json' }, body })
    const found = await answer.json()
    if (!answer.ok) throw new Error([found.reason, found.suggestion].filter(Boolean).join(' '))
    return found
  }

  // Replaces the selection as if the reader had typed, so that it can be undone.
  const insert = (text) => {
    area.focus()
    if (document.execCommand('insertText', false, text)) return
    area.setRangeText(text, area.selectionStart, area.selectionEnd, 'end')
    area.dispatchEvent(new Event('input', { bubbles: true }))
  }

  // A line of the text is a line of the field while lines don't wrap, so that each has its number beside it.
  const numbers = () => {
    const gutter = editor.querySelector('.gutter')
    const list = gutter.firstElementChild
    const button = document.createElement('button')
    let lines = 1
    const paint = () => {
      const height = parseFloat(getComputedStyle(area).lineHeight)
      const first = Math.floor(area.scrollTop / height)
      const shown = Math.max(0, Math.min(lines - first, Math.ceil(area.clientHeight / height) + 1))
      list.textContent = Array.from({ length: shown }, (_, i) => first + i + 1).join('\n')
      list.style.transform = `translateY(${first * height - area.scrollTop}px)`
      gutter.style.width = `${Math.max(2, String(lines).length)}ch`
    }
    const count = () => {
      lines = 1
      for (let at = area.value.indexOf('\n'); at >= 0; at = area.value.indexOf('\n', at + 1)) lines++
      paint()
    }
    const wrap = (on) => {
      area.wrap = on ? 'soft' : 'off'
      gutter.hidden = on
      button.ariaPressed = String(on)
      paint()
    }
    button.type = 'button'
    button.className = 'quiet small editor-wrap'
    button.textContent = 'Wrap'
    button.addEventListener('click', () => {
      wrap(area.wrap === 'off')
      quietly(() => localStorage.setItem('quire-wrap', area.wrap))()
    })
    editor.querySelector('.editor-head').append(button)
    area.addEventListener('input', count)
    area.addEventListener('scroll', paint)
    new ResizeObserver(paint).observe(area)
    wrap(false)
    quietly(() => wrap(localStorage.getItem('quire-wrap') === 'soft'))()
    count()
    return count
  }

  // The Tab key indents. After Escape it leaves the text, as it does everywhere else.
  const keys = () => {
    const hint = editor.querySelector('.editor-keys')
    hint.hidden = false
    area.setAttribute('aria-describedby', [area.getAttribute('aria-describedby'), hint.id].filter(Boolean).join(' '))
    const unit = () => /^\t/m.test(area.value) ? '\t' : /^( {2,8})\S/m.exec(area.value)?.[1] ?? '\t'
    const shift = (out) => {
      const { value, selectionStart, selectionEnd } = area
      const indent = unit()
      if (!out && !value.slice(selectionStart, selectionEnd).includes('\n')) return insert(indent)
      const from = value.lastIndexOf('\n', selectionStart - 1) + 1
      const end = value.indexOf('\n', Math.max(selectionStart, selectionEnd - 1))
      const to = end < 0 ? value.length : end
      const before = value.slice(from, to)
      const shorter = (line) => line.startsWith(indent) ? line.slice(indent.length) : line.replace(/^(\t| {1,8})/, '')
      const after = before.split('\n').map((line) => out ? shorter(line) : line && indent + line).join('\n')
      if (after === before) return
      area.setSelectionRange(from, to)
      insert(after)
      area.setSelectionRange(selectionStart === selectionEnd ? Math.max(from, selectionStart + after.length - before.length) : from, from + after.length)
      if (selectionStart === selectionEnd) area.setSelectionRange(area.selectionStart, area.selectionStart)
    }
    let leaves = false
    area.addEventListener('blur', () => { leaves = false })
    area.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') leaves = true
      else if (event.key !== 'Tab') leaves &&= event.key === 'Shift'
      else if (!leaves && !event.isComposing && !event.ctrlKey && !event.altKey && !event.metaKey) {
        event.preventDefault()
        shift(event.shiftKey)
      }
    })
    form.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' || !event.ctrlKey && !event.metaKey) return
      event.preventDefault()
      if (!send.disabled) form.requestSubmit(send)
    })
  }

  // The choice of a detected language says which one it is.
  const detection = () => {
    const auto = [...language?.options ?? []].find(({ value }) => value === 'auto')
    if (!auto) return () => {}
    const unknown = auto.textContent
    let asked = ''
    const look = later(400, async () => {
      const body = new URLSearchParams({ title: title.value, content: area.value.slice(0, 8192) })
      if (language.value !== 'auto' || String(body) === asked) return
      asked = String(body)
      if (!area.value && !title.value) {
        auto.textContent = unknown
        return
      }
      try {
        const found = await post('/editor/language', body)
        if (String(body) === asked) auto.textContent = `Detected: ${found.name}`
      } catch { // it is detected once more when the text is stored
        auto.textContent = unknown
      }
    })
    for (const field of [area, title]) field.addEventListener('input', look)
    language.addEventListener('change', () => {
      asked = ''
      look()
    })
    look()
    return look
  }

  const preview = () => {
    const button = form.querySelector('[data-preview]')
    if (!button) return
    const pane = editor.querySelector('.editor-preview')
    button.type = 'button'
    button.classList.add('small')
    editor.querySelector('.editor-head').append(button)
    const show = (on) => {
      pane.hidden = !on
      box.hidden = on
      button.textContent = on ? 'Edit' : 'Preview'
    }
    button.addEventListener('click', async () => {
      if (!pane.hidden) {
        show(false)
        area.focus()
        return
      }
      try {
        const { html } = await post('/editor/preview', new URLSearchParams({ title: title.value, language: language?.value ?? 'auto', content: area.value }))
        pane.innerHTML = html
        say('')
        show(true)
      } catch (error) {
        say(error.message, true)
      }
    })
    // The browser has to show the field again before it can say what is wrong with it.
    area.addEventListener('invalid', () => show(false))
  }

  // A file that is no text is uploaded to the account, and its link takes the place of the selection.
  const upload = async (file) => {
    if (!editor.dataset.account) return say('Sign in to upload images and files. Without an account, only text can be pasted.', true)
    if (file.size > maxFileBytes) return say('Files can have up to 50 MB.', true)
    say(`Uploading ${file.name} …`)
    const body = new FormData()
    body.set('account', editor.dataset.account)
    body.set('once', crypto.randomUUID?.() ?? String(Math.random()))
    body.set('file', file)
    try {
      const { url } = await post('/console/files', body)
      const markdown = language?.value === 'markdown' || language?.selectedOptions?.[0]?.textContent === 'Detected: Markdown'
      insert(markdown ? `[${file.name}](${url})` : url)
      say(`${file.name} is uploaded, and its link is in the text.`)
    } catch (error) {
      say(`${file.name} was not uploaded. ${error.message}`, true)
    }
  }

  const drops = (detect) => {
    const take = async (file) => {
      const maxBytes = Number(editor.dataset.bytes)
      let text
      try {
        if (file.size > maxFileBytes) throw new Error('too large to read')
        text = new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer())
      } catch {
        return upload(file)
      }
      if (text.includes('\0')) return upload(file)
      if (file.size > maxBytes) return say(`A paste here can have up to ${maxBytes / 1024} KB. With an account, you can upload files of up to 50 MB.`, true)
      const empty = !area.value
      insert(text)
      if (area.value.length < text.length) area.value = text // a browser that cuts what it inserts
      if (empty) title.value ||= file.name.slice(0, 200)
      say('')
      detect()
    }
    const dropping = (on) => (event) => {
      if (!event.dataTransfer?.types.includes('Files')) return
      event.preventDefault()
      form.classList.toggle('dropping', on)
    }
    area.addEventListener('dragover', dropping(true))
    area.addEventListener('dragleave', dropping(false))
    area.addEventListener('drop', async (event) => {
      dropping(false)(event)
      for (const file of [...event.dataTransfer?.files ?? []]) await take(file)
    })
    area.addEventListener('paste', async (event) => {
      const { files, types } = event.clipboardData
      if (!files.length || types.includes('text/plain')) return // a spreadsheet has a picture of itself beside its text
      event.preventDefault()
      for (const file of [...files]) await take(file)
    })
  }

  // What is typed survives a reload of the page, in this tab. It is forgotten once it was sent: see sent.js.
  const unsaved = (changed) => {
    const key = `quire-unsaved:${form.getAttribute('action')}`
    const names = ['content', 'title', 'language', 'version', 'sum'].filter((name) => form.elements[name])
    const read = () => Object.fromEntries(names.map((name) => [name, form.elements[name].value]))
    const write = (values) => { for (const name of names) if (name in values) form.elements[name].value = values[name] }
    const initial = read()
    const same = (a, b) => a.content === b.content && a.title === b.title
    const save = () => {
      const now = read()
      if (same(now, initial) && 'fresh' in editor.dataset) sessionStorage.removeItem(key)
      else sessionStorage.setItem(key, JSON.stringify(now))
    }
    quietly(() => {
      sessionStorage.removeItem('quire-sent')
      const kept = JSON.parse(sessionStorage.getItem(key))
      if (!kept || !('fresh' in editor.dataset) || same(kept, initial)) return
      write(kept)
      changed()
      say('Your unsaved text was restored.')
      const discard = document.createElement('button')
      discard.type = 'button'
      discard.className = 'quiet small'
      discard.textContent = 'Discard it'
      discard.addEventListener('click', () => {
        write(initial)
        quietly(save)()
        changed()
        say('')
        area.focus()
      })
      says.append(discard)
    })()
    form.addEventListener('input', later(250, quietly(save)))
    let sent = false
    addEventListener('pagehide', () => { if (!sent) quietly(save)() })
    addEventListener('pageshow', () => { sent = false })
    form.addEventListener('submit', quietly(() => {
      save()
      sent = true
      sessionStorage.setItem('quire-sent', key)
    }))
  }

  const count = numbers()
  keys()
  const detect = detection()
  preview()
  drops(detect)
  unsaved(() => {
    count()
    detect()
  })
}

for (const editor of document.querySelectorAll('[data-editor]')) edit(editor)
