// Before the first paint: what the reader chose, else what the system says.
{
	const saved = (() => { try { return localStorage.getItem("theme"); } catch { return null; } })();
	if (saved === "light" || saved === "dark") document.documentElement.dataset.theme = saved;
	addEventListener("DOMContentLoaded", () => {
		if (innerWidth > 760) document.querySelector("details.nav").open = true;
		document.getElementById("theme").addEventListener("click", () => {
			const dark = getComputedStyle(document.documentElement).getPropertyValue("--dark").trim() === "1";
			document.documentElement.dataset.theme = dark ? "light" : "dark";
			try { localStorage.setItem("theme", dark ? "light" : "dark"); } catch { /* a file without storage */ }
		});
	});
}
