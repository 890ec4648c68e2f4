/** Rejects with an error that names what was waited for if promise takes longer than limit, in milliseconds. */
export async function within(limit, promise, what) {
  let timer
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`waited ${limit} ms in vain until ${what}`)), limit)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}
