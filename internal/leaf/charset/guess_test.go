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
		IBM866:      {"Привет, мир. Это проверка.\n"},
		Windows1253: {"Καλημέρα κόσμε, αυτό είναι ένα αρχείο.\n"},
		Latin1: {"café à la carte; größe = 3\n", "// Author: José\nint main() { return 0; }\n", "ÄÖÜ äöü ß\n", "Århus\n",
			"Straße\n", "naïve déjà vu\n", "10 °C, 5 µm, ½\n", "Ångström ÆØÅ æøå\n", "créée à l'été\n", "¿Qué? ¡Sí! Ñandú\n"},
		Windows1252: {"“Hello” — it’s 5 €\n", "it’s\n", "Noto‘g‘ri, bo‘lishi\n", "don’t… we’ve — you’re\n"},
	} {
		enc := map[Encoding]encoding.Encoding{GBK: simplifiedchinese.GBK, Big5: traditionalchinese.Big5, EUCKR: korean.EUCKR,
			ShiftJIS: japanese.ShiftJIS, EUCJP: japanese.EUCJP, KOI8R: charmap.KOI8R, Windows1251: charmap.Windows1251,
			IBM866: charmap.CodePage866, Windows1253: charmap.Windows1253, Latin1: charmap.ISO8859_1,
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
