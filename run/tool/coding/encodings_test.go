package coding

import (
	"strings"
	"testing"
)

// Files in other encodings are read by guess, and neither edit nor write changes a byte that they were not to change.
func TestEncodingsKept(t *testing.T) {
	const guessed = "\n\n[The file is not UTF-8. It was decoded as %, which is a guess; edit and write keep that encoding.]"
	note := func(enc string) string { return strings.ReplaceAll(guessed, "%", enc) }
	b := newFixture(t, FileOptions{},
		"sjis=# \x90\xdd\x92\xe8\x83t\x83@\x83C\x83\x8b\nname = 1\n", "gbk=# \xd6\xd0\xce\xc4\xce\xc4\xbc\xfe\r\nx = 1\r\n",
		"utf16=\xff\xfeh\x00i\x00\r\x00\n\x00", "latin=caf\xe9\n", "bom=\xef\xbb\xbfx\n", "mac=a\rb\r", "plain=a\nb\n",
		"ends=a\r\nb\nc\r\nd", "mixed=日本語\xff\n", "broken=# \x90\xdd\x92\xe8\x83t\x83@\x83C\x83\x8b\x90\xdd\x92\xe8"+
			strings.Repeat("\x90\xdd\x92\xe8\x83t\x83@\x83C\x83\x8b", 20)+" \x85\nx = 1\n", "nul=a\x00b\n",
		"gb18030=# \xd6\xd0\xce\xc4\xce\xc4\xbc\xfe \x94\x39\xfc\x36\nx = 1\n", "jis=# \x1b$B@_Dj\x1b(B\nx = 1\n",
		"bare=n\x00a\x00m\x00e\x00=\x00\xe9\x00\r\x00\n\x00")
	b.want(t, "read", `{"path":"sjis"}`, "# 設定ファイル\nname = 1"+note("Shift_JIS"))
	b.want(t, "read", `{"path":"gbk"}`, "# 中文文件\r\nx = 1\r"+note("GBK"))
	b.want(t, "read", `{"path":"gb18030"}`, "# 中文文件 😀\nx = 1"+note("GB18030"))
	b.want(t, "read", `{"path":"jis"}`, "# 設定\nx = 1"+note("ISO-2022-JP"))
	b.want(t, "read", `{"path":"bare"}`, "name=é\r"+note("UTF-16LE without BOM"))
	for _, c := range []struct{ tool, file, in, want, content string }{
		{"edit", "sjis", `"edits":[{"oldText":"name","newText":"名前"}]`, "Replaced 1 occurrence in sjis.",
			"# \x90\xdd\x92\xe8\x83t\x83@\x83C\x83\x8b\n\x96\xbc\x91O = 1\n"},
		{"edit", "sjis", `"edits":[{"oldText":"= 1","newText":"= 한"}]`,
			"error: sjis: the file is Shift_JIS, which has no '한' (U+D55C)",
			"# \x90\xdd\x92\xe8\x83t\x83@\x83C\x83\x8b\n\x96\xbc\x91O = 1\n"},
		{"write", "sjis", `"content":"設定\n"`, "Wrote sjis (5 bytes). It was kept as it is: Shift_JIS, which is a guess.",
			"\x90\xdd\x92\xe8\n"},
		{"write", "gbk", `"content":"# 中文\ny = 2\n"`,
			"Wrote gbk (15 bytes). It was kept as it is: GBK, which is a guess; CRLF line ends.", "# \xd6\xd0\xce\xc4\r\ny = 2\r\n"},
		{"write", "gbk", `"content":"😀"`, "error: DIR/gbk: the file is GBK, which has no '😀' (U+1F600): remove the file " +
			"first to write it as UTF-8", "# \xd6\xd0\xce\xc4\r\ny = 2\r\n"},
		{"write", "utf16", `"content":"é\n"`, "Wrote utf16 (8 bytes). It was kept as it is: UTF-16LE; CRLF line ends.",
			"\xff\xfe\xe9\x00\r\x00\n\x00"},
		{"write", "bom", `"content":"\ufeffy\n"`, "Wrote bom (5 bytes). It was kept as it is: UTF-8 with BOM.",
			"\xef\xbb\xbfy\n"},
		{"write", "latin", `"content":"thé\n"`, "Wrote latin (4 bytes). It was kept as it is: Latin-1, which is a guess.",
			"th\xe9\n"},
		{"write", "mac", `"content":"c\nd\n"`, "Wrote mac (4 bytes). It was kept as it is: CR line ends.", "c\rd\r"},
		{"write", "plain", `"content":"a\r\nb\r\n"`, "Wrote plain (6 bytes).", "a\r\nb\r\n"},
		{"write", "ends", `"content":"a\nb\nx\nc\ny\n"`,
			"Wrote ends (14 bytes). It was kept as it is: the line ends of lines that did not change.",
			"a\r\nb\nx\r\nc\r\ny\r\n"},
		{"write", "plain", `"content":"a\u0000b"`, "error: DIR/plain: read could not open the file after this change, because " +
			"it would no longer count as text: remove the file first, if it is to be something else", "a\r\nb\r\n"},
		{"write", "new", `"content":"a\u0000b"`, "Created new (3 bytes). It is no text: read cannot open it.", "a\x00b"},
		{"grep", "gbk", `"pattern":"中文"`, "gbk:1: # 中文", ""}, {"grep", "sjis", `"pattern":"^設."`, "sjis:1: 設定", ""},
		{"grep", "gb18030", `"pattern":"文件 😀"`, "gb18030:1: # 中文文件 😀", ""},
		{"grep", "jis", `"pattern":"設定"`, "jis:1: # 設定", ""}, {"grep", "bare", `"pattern":"é$"`, "bare:1: name=é", ""},
		{"edit", "gb18030", `"edits":[{"oldText":"1","newText":"𠮷"}]`, "Replaced 1 occurrence in gb18030.",
			"# \xd6\xd0\xce\xc4\xce\xc4\xbc\xfe \x94\x39\xfc\x36\nx = \x95\x34\xb2\x35\n"},
		{"edit", "jis", `"edits":[{"oldText":"1","newText":"値"}]`, "Replaced 1 occurrence in jis.",
			"# \x1b$B@_Dj\x1b(B\nx = \x1b$BCM\x1b(B\n"},
		{"edit", "jis", `"edits":[{"oldText":"x","newText":"한"}]`,
			"error: jis: the file is ISO-2022-JP, which has no '한' (U+D55C)", ""},
		{"edit", "bare", `"edits":[{"oldText":"é","newText":"日"}]`, "Replaced 1 occurrence in bare.",
			"n\x00a\x00m\x00e\x00=\x00\xe5\x65\r\x00\n\x00"},
		{"edit", "mixed", `"edits":[{"oldText":"本","newText":"é"}]`, "Replaced 1 occurrence in mixed.", "日é語\xff\n"},
		{"edit", "broken", `"edits":[{"oldText":"x","newText":"y"}]`,
			"error: DIR/broken is not valid Shift_JIS: it cannot be edited without harm", ""},
		{"edit", "latin", `"edits":[{"oldText":"é","newText":"Ã©"}]`,
			"error: latin: read would take the changed file for UTF-8, and show another text", "th\xe9\n"},
		{"edit", "latin", `"edits":[{"oldText":"th","newText":"th\u0000"}]`, "error: latin: read could not open the file " +
			"after this change, because it would no longer count as text", "th\xe9\n"},
		{"edit", "plain", `"edits":[{"oldText":"a","newText":"%PDF-1.7"}]`, "error: plain: read could not open the file " +
			"after this change, because it would no longer count as text", "a\r\nb\r\n"},
		{"edit", "nul", `"edits":[{"oldText":"b","newText":"c"}]`, "Replaced 1 occurrence in nul.", "a\x00c\n"},
	} {
		b.want(t, c.tool, `{"path":"`+c.file+`",`+c.in+`}`, c.want)
		if got := b.content(t, c.file); c.content != "" && got != c.content {
			t.Errorf("%s %s: %q, want %q", c.tool, c.file, got, c.content)
		}
	}
}
