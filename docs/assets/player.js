// Plays each recording of a page in its place. The recording itself stands in recordings.js, since a page that was
// opened from the disk may not fetch a file.
document.addEventListener("DOMContentLoaded", function () {
  document.querySelectorAll("[data-recording]").forEach(function (place) {
    var text = (window.RECORDINGS || {})[place.dataset.recording];
    if (text === undefined || window.AsciinemaPlayer === undefined) return;
    place.textContent = "";
    AsciinemaPlayer.create({ data: text }, place, { fit: "width", idleTimeLimit: 2, poster: "npt:0:03" });
  });
});
