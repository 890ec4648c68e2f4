try{const t=localStorage.getItem("quire.theme");if(t==="light"||t==="dark")document.documentElement.dataset.theme=t}catch{}
