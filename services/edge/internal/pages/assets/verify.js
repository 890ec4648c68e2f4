// Checks the proof of a bill with the bill verifier. Nothing is sent: the page's policy allows no request of a script.
'use strict'
const form = document.getElementById('verify')
const result = document.getElementById('verify-result')
form.hidden = false
document.getElementById('verify-unscripted').hidden = true

// part is an element with a text, or with other elements.
function part(name, ...children) {
  const element = document.createElement(name)
  element.append(...children)
  return element
}

function notice(kind, text) {
  const element = part('p', text)
  element.className = `notice ${kind}`
  element.setAttribute('role', kind === 'good' ? 'status' : 'alert')
  return element
}

const list = (texts) => part('ul', ...texts.map((text) => part('li', text)))

async function bytesOf(name) {
  const [file] = form.elements[name].files
  return file ? new Uint8Array(await file.arrayBuffer()) : undefined
}

async function verify() {
  if (!globalThis.crypto?.subtle) return [notice('bad', 'Cannot verify: browsers check signatures on pages with HTTPS only.')]
  const { showDifference, verifyProof } = await import(form.dataset.program)
  const receipts = await bytesOf('receipts')
  const { account, period, report, checked, trust } = await verifyProof(await bytesOf('proof'), {
    key: form.elements.key.value, checkpoint: await bytesOf('checkpoint'), receipts: receipts && new TextDecoder().decode(receipts),
  })
  const count = report.count === 1 ? '1 difference' : `${report.count} differences`
  return [
    report.count === 0 ? notice('good', `Everything checked fits: account ${account}, ${period}.`) : notice('bad', `The proof is wrong: ${count} for account ${account}, ${period}.`),
    ...report.count === 0 ? [] : [part('h2', 'Differences'), list(report.differences.map(showDifference))],
    part('h2', 'Checked'), list(checked), part('h2', 'Remains on trust'), list(trust),
  ]
}

form.addEventListener('submit', async (event) => {
  event.preventDefault()
  const button = form.querySelector('button')
  button.disabled = true
  result.replaceChildren(part('p', 'Verifying…'))
  try {
    result.replaceChildren(...await verify())
  } catch (error) {
    result.replaceChildren(notice('bad', `Cannot verify: ${error.message}.`))
  }
  button.disabled = false
  result.focus()
})
