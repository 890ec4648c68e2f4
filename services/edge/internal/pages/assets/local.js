// Fields with data-utc hold times in UTC, as the server reads and writes them. They become the reader's own, and are sent as UTC.
'use strict'
const fields = document.querySelectorAll('input[data-utc]')
const padded = (n) => String(n).padStart(2, '0')
for (const field of fields) {
  const at = new Date(`${field.value}Z`)
  if (!Number.isNaN(at.getTime())) {
    field.value = `${at.getFullYear()}-${padded(at.getMonth() + 1)}-${padded(at.getDate())}T${padded(at.getHours())}:${padded(at.getMinutes())}`
  }
  field.form.addEventListener('formdata', ({ formData }) => {
    const own = new Date(field.value)
    if (!Number.isNaN(own.getTime())) formData.set(field.name, own.toISOString().slice(0, 16))
  })
}
for (const zone of document.querySelectorAll('[data-zone]')) zone.textContent = 'your time'
