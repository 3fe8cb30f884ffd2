// Searches the pages of search-index.js: every word must be in a page; words of the title count more.
"use strict";
{
	const root = new URL(".", document.currentScript.src).href;
	const field = document.getElementById("search"), list = document.getElementById("found");
	const pages = window.pages.map((p) => ({ ...p, low: p.text.toLowerCase(), head: p.title.toLowerCase() }));
	const show = () => {
		const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
		list.replaceChildren();
		list.hidden = words.length === 0;
		if (list.hidden) return;
		const found = [];
		for (const p of pages) {
			let score = 0;
			for (const w of words) {
				const n = p.low.split(w).length - 1, inHead = p.head.includes(w);
				if (n === 0 && !inHead) { score = 0; break; }
				score += Math.log2(1 + n) + (inHead ? 8 : 0);
			}
			if (score > 0) found.push([score, p]);
		}
		found.sort((a, b) => b[0] - a[0]);
		for (const [, p] of found.slice(0, 8)) {
			const at = Math.max(0, p.low.indexOf(words[0]) - 40);
			const item = document.createElement("li"), link = document.createElement("a"), text = document.createElement("small");
			link.href = root + p.url;
			link.textContent = p.title;
			text.textContent = p.text.slice(at, at + 120).replace(/\s+/g, " ");
			link.append(text);
			item.append(link);
			list.append(item);
		}
		if (found.length === 0) {
			const item = document.createElement("li");
			item.textContent = "Nothing was found.";
			list.append(item);
		}
	};
	field.addEventListener("input", show);
	field.addEventListener("keydown", (e) => {
		if (e.key === "Escape") { field.value = ""; show(); }
		if (e.key === "Enter") list.querySelector("a")?.click();
		if (e.key === "ArrowDown") { list.querySelector("a")?.focus(); e.preventDefault(); }
	});
	addEventListener("keydown", (e) => {
		if (e.key === "/" && document.activeElement !== field) { field.focus(); e.preventDefault(); }
	});
}
