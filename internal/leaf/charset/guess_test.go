package charset

import (
	"strings"
	"testing"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	"golang.org/x/text/encoding/unicode"
)

// Short comments in programs are guessed right, and what is western is not taken for Chinese.
func TestGuess(t *testing.T) {
	for e, texts := range map[Encoding][]string{
		ShiftJIS: {"// 設定ファイルを読み込む\nint main() { return 0; }\n", "# 日本語\nx = 1\n",
			"name = \"東京\"\n# これはテストです\n", "2024年5月3日\n", "# テスト\n", "エラー: ファイルが見つかりません\n"},
		EUCJP: {"// 設定ファイルを読み込む\nint main() { return 0; }\n", "# これは日本語\n"},
		GBK: {"// 读取配置文件，然后启动服务\nint main() { return 0; }\n", "# 中文\nx = 1\n", "标题: 你好，世界\n",
			"print(\"错误\")\n", "姓名,年龄\n张伟,30\n李娜,28\n"},
		Big5:        {"// 讀取設定檔，然後啟動服務\nint main() { return 0; }\n", "標題: 你好，世界\n", "# 繁體中文\n"},
		EUCKR:       {"// 설정 파일을 읽는다\nint main() { return 0; }\n", "# 한국어 문자\n", "오류가 발생했습니다\n"},
		KOI8R:       {"Привет, мир. Это проверка.\n", "# Файл настроек\n"},
		Windows1251: {"Привет, мир. Это проверка.\n", "# Файл настроек\nx = 1\n"},
		GB18030:     {"标题: 你好，世界\n表情 😀 和 𠮷\n", "// 读取配置文件，然后启动服务\nint ŏ = 0;\n"},
		ISO2022JP:   {"# 設定ファイル\nname = 1\n", "件名: ﾃｽﾄ 日本語\n"},
		BareUTF16LE: {"Windows Registry Editor\r\n\r\n\"name\"=\"größe 日本\"\r\n"},
		BareUTF16BE: {"a = 1\nb = 2 // Привет\n"},
		KOI8U:       {"Привіт, світе. Це перевірка її та є.\n"},
		Windows1255: {"שלום עולם, זה קובץ הגדרות.\n"},
		Windows1256: {"مرحبا بالعالم هذا ملف الإعدادات\n"},
		Windows874:  {"สวัสดีชาวโลก นี่คือแฟ้ม\n"},
		Windows1250: {"// Zażółć gęślą jaźń\n", "Příliš žluťoučký kůň úpěl ďábelské ódy\n"},
		Latin2:      {"# Zażółć gęślą jaźń\n"},
		Windows1254: {"Şişli'de yağış bekleniyor, ılık gün\n"},
		IBM866:      {"Привет, мир. Это проверка.\n"},
		Windows1253: {"Καλημέρα κόσμε, αυτό είναι ένα αρχείο.\n"},
		Latin1: {"café à la carte; größe = 3\n", "// Author: José\nint main() { return 0; }\n", "ÄÖÜ äöü ß\n", "Århus\n",
			"Straße\n", "naïve déjà vu\n", "10 °C, 5 µm, ½\n", "Ångström ÆØÅ æøå\n", "créée à l'été\n", "¿Qué? ¡Sí! Ñandú\n"},
		Windows1252: {"“Hello” — it’s 5 €\n", "it’s\n", "Noto‘g‘ri, bo‘lishi\n", "don’t… we’ve — you’re\n"},
	} {
		enc := map[Encoding]encoding.Encoding{GBK: simplifiedchinese.GBK, Big5: traditionalchinese.Big5, EUCKR: korean.EUCKR,
			ShiftJIS: japanese.ShiftJIS, EUCJP: japanese.EUCJP, KOI8R: charmap.KOI8R, Windows1251: charmap.Windows1251,
			GB18030: simplifiedchinese.GB18030, ISO2022JP: japanese.ISO2022JP, KOI8U: charmap.KOI8U,
			BareUTF16LE: unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM), Windows1255: charmap.Windows1255,
			BareUTF16BE: unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM), Windows1256: charmap.Windows1256,
			Windows874: charmap.Windows874, Windows1250: charmap.Windows1250, Latin2: charmap.ISO8859_2,
			Windows1254: charmap.Windows1254, IBM866: charmap.CodePage866, Windows1253: charmap.Windows1253, Latin1: charmap.ISO8859_1,
			Windows1252: charmap.Windows1252}[e]
		for _, text := range texts {
			data, err := enc.NewEncoder().Bytes([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			got, guess, err := Read(data)
			if err != nil || guess != e || got != text {
				t.Errorf("%v: %q: %v, %q, %v", e, text, guess, got, err)
			}
			if !guess.Guessed() {
				t.Errorf("%v is not guessed", e)
			}
		}
	}
}

// What cannot be written back is refused, and UTF-8 with a few other bytes stays what it is.
func TestGuessDamaged(t *testing.T) {
	text := strings.Repeat("設定ファイルを読み込む\n", 20)
	data, err := japanese.ShiftJIS.NewEncoder().Bytes([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if _, e, err := Read(append(data, "\x81\n"...)); e != ShiftJIS || err == nil {
		t.Errorf("half a character: %v, %v", e, err)
	}
	if _, err := ShiftJIS.Write("한"); err == nil || err.Error() != `the file is Shift_JIS, which has no '한' (U+D55C)` {
		t.Errorf("Korean in Shift_JIS: %v", err)
	}
	if text, e, err := Read([]byte("日本語 \xff\n")); e != MixedUTF8 || err != nil || text != "日本語 \xff\n" {
		t.Errorf("mixed: %q, %v, %v", text, e, err)
	}
}

// Every character that GB18030 writes in four bytes is read and written as golang.org/x/text does it.
func TestFourBytes(t *testing.T) {
	enc := simplifiedchinese.GB18030.NewEncoder()
	for r := rune(0x80); r <= 0x10ffff; r++ {
		if 0xd800 <= r && r < 0xe865 || r > 0x11000 && r%101 != 0 {
			continue
		}
		want, err := enc.Bytes([]byte(string(r)))
		got, err2 := GB18030.Write(string(r))
		if err != nil || err2 != nil || string(got) != string(want) || string(GB18030.Decode(nil, got)) != string(r) {
			t.Fatalf("%x: % x, want % x, %v, %v", r, got, want, err2, err)
		}
	}
}

// What is no text is not taken for UTF-16, and terminals' escapes are not taken for Japanese.
func TestNotGuessed(t *testing.T) {
	for _, data := range []string{"a\x00b\n", "\x00\x01\x02\x03", "\x7fELF\x02\x01\x01\x00\x00\x00", "a\x00",
		"GIF89a\x01\x00\x01\x00", "a\x00b\x00\x00\x00", "\x1b[31mred\x1b[0m $B(B\n", "\x1b$B1", "\x1b$)C\x0e!!\n", "x\x1b$B&\x1b[0m\n"} {
		if e := Detect([]byte(data)); e != UTF8 {
			t.Errorf("%q: %v", data, e)
		}
	}
}
