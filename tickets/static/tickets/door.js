// The scanner types wherever the cursor is: keep it in the field. Without this script, the page
// itself puts it there after each scan.
"use strict";
const field = document.getElementById("code");
const back = () => {
  if (!window.getSelection().toString()) field.focus();
};
back();
document.addEventListener("click", (event) => {
  if (!event.target.closest("a, button, input, label")) back();
});
window.addEventListener("focus", back);
