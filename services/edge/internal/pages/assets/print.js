// Buttons with data-print open the browser's print dialog. They are hidden where no script runs.
'use strict'
for (const button of document.querySelectorAll('button[data-print]')) {
  button.hidden = false
  button.addEventListener('click', () => print())
}
