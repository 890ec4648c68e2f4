// A page that confirms what the editor sent: its unsaved text is not kept any longer. See editor.js.
'use strict'
try {
  const sent = sessionStorage.getItem('quire-sent')
  if (sent) {
    sessionStorage.removeItem(sent)
    sessionStorage.removeItem('quire-sent')
  }
} catch {} // a browser that keeps nothing
