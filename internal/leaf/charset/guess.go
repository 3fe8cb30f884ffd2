package charset

import (
	"bytes"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxGuess is how much of a text Guess looks at, in bytes.
const MaxGuess = 1 << 20

// Characters that are frequent in texts and in comments of programs.
const (
	frequentHans = "的一是不了在人有我他这中大来上国个到说们为子和你地出也时年得就那要下以生会自着去之过家学对可里后小么心多天" +
		"而能好都然没日于起还发成事只作当想看文无开手用主行方又如前所本见经头面公同三已从动两长知样现分将外但些与高意进" +
		"把法此实回二理点月明其种全工话者向情部正名定问力机给等几业最间新什位因重被电第门相次使教再平真世气信少关并内加化" +
		"由代产入先五水万市体别处总才场书比员性通目报立件安表原应路期常提感更反合放做系计或利受光果及务制解各任至清物台" +
		"记边共接它许特直题建度统色字请认算论科元社术结指思非流每管连远资条变联言权该领传近留保达办运完区即求品转量空" +
		"技程告语基式息写识极令收始版双千片容找改议形据导影失网专争组造视置读取配启服界标返错误码参函类输载执停测试" +
		"数型值串查删添默认检户密登录签命复修义设"
	frequentHant = "的一是不了在人有我他這中大來上國個到說們為子和你地出也時年得就那要下以生會自著去之過家學對可裡後小麼心多天" +
		"而能好都然沒日於起還發成事只作當想看文無開手用主行方又如前所本見經頭面公同三已從動兩長知樣現分將外但些與高意進" +
		"把法此實回二理點月明其種全工話者向情部正名定問力機給等幾業最間新什位因重被電第門相次使教再平真世氣信少關並內加化" +
		"由代產入先五水萬市體別處總才場書比員性通目報立件安表原應路期常提感更反合放做系計或利受光果及務制解各任至清物台" +
		"記邊共接它許特直題建度統色字請認算論科元社術結指思非流每管連遠資條變聯言權該領傳近留保達辦運完區即求品轉量空" +
		"技程告語基式息寫識極令收始版雙千片容找改議形據導影失網專爭組造視置讀取配啟服界標返錯誤碼參函類輸載執停測試" +
		"數型值串查刪添預檔設檢戶密登錄簽命複修義"
	frequentKanji = "日一人年大十二本中長出三時行見月後前生五間上東四今金九入学高円子外八六下来気小七山話女北午百書先名川千水半男" +
		"西電校語土木聞食車何南万毎白天母火右読友左休父雨会同事自社発者地業方新場員立開手力問代明動京目通言理体田主題" +
		"意不作用度強公持野以思家世多正安院心界教文元重近考画海売知道集別物使品計死特私始朝運終台広住無真有口少町料工建空" +
		"急止送切転研足究楽起着店病質待試族銀早映親験英医仕去味写字答夜音注帰古歌買悪図週室歩風紙黒花春赤青館屋色走秋夏" +
		"習駅洋旅服夕借曜飲肉貸堂鳥飯勉冬昼茶弟牛魚兄犬妹姉漢値数設定変更追加削除取得確認処理関返引型対象表示結果実成功" +
		"失敗接続状態保存検索登録名前初期化必要場合指設部分化全内最他性能力入法番号情報込済"
	frequentHangul = "이다는의에을가지고하도로기사한은를서어인자아리시대나라일수정해그스게있장부제적보전전들구으만주과여원성유조비" +
		"용면공상것동니요않마미모오무치안소생우트들된할었했습니까러네세내데와화경신국학위연실방중진간관계년거물단파" +
		"일값문류설읽쓰출력입함반환오류코드번호명름크합없있때및또는후전새현재목록글변경추삭확인저검사용자"
	frequentRussian = "оеаинтсрвлкмдпуя"
	frequentUkrain  = frequentRussian + "іїєґ"
	frequentGreek   = "αοιετσνηυρπκμλςω"
	frequentHebrew  = "יוהלאתרבמשנםדקחע"
	frequentArabic  = "اليمونرتبةعدسفهك"
	frequentThai    = "านรกอเงมยลวดตสค่้ี"
)

// A language has the letters of one that is written in Latin, and its encodings; nil: Windows-1252.
type language struct {
	letters string
	also    []Encoding
}

var latin = []language{
	{"éèêëàâçîïôùûœæ«»°’", nil}, {"äöüßé", nil}, {"áéíóúñüç¿¡ºª", nil}, {"ãõáéíóúâêôàç", nil}, {"àèéìòù", nil},
	{"åäöæøéü", nil}, {"áéíóúýþðæö", nil},
	{"ąćęłńóśźż„”", []Encoding{Windows1250, Latin2}}, {"áčďéěíňóřšťúůýžĺľôä", []Encoding{Windows1250, Latin2}},
	{"áéíóöőúüű", []Encoding{Windows1250, Latin2}}, {"čćšđž", []Encoding{Windows1250, Latin2}},
	{"çğıöşüâîéİ", []Encoding{Windows1254}},
}

// eightBit guesses the encoding of a text that is Latin: one in which all letters are of one language, unless those of
// Windows-1252 are of one, too.
func eightBit(data []byte) Encoding {
	if western(data) {
		return EightBit(data)
	}
	for _, l := range latin {
		for _, e := range l.also {
			if e.only(data, l.letters) {
				return e
			}
		}
	}
	return EightBit(data)
}

// western reports whether the letters of a text are those of one language of Windows-1252.
func western(data []byte) bool {
	return slices.ContainsFunc(latin, func(l language) bool { return l.also == nil && Windows1252.only(data, l.letters) })
}

// only reports whether all that is not ASCII are letters, in upper or lower case, of at least two kinds.
func (e Encoding) only(data []byte, letters string) bool {
	seen := map[rune]bool{}
	for _, b := range data {
		if b >= 0x80 {
			r := unicode.ToLower(e.table().DecodeByte(b))
			if !strings.ContainsRune(letters, r) {
				return false
			}
			seen[r] = true
		}
	}
	return len(seen) > 1
}

// A plausibility says how much a text in an encoding is like one that somebody wrote.
type plausibility struct{ units, invalid, usual, frequent, weak int }

// cjkPlausibility reads data as text of an encoding of Chinese, Japanese or Korean. Weak are characters between ASCII
// whose second bytes are all ASCII, too: they may be accented letters or quotes, each with the letter behind it.
func (e Encoding) cjkPlausibility(data []byte) (p plausibility) {
	known := map[rune]bool{}
	for _, r := range map[Encoding]string{GBK: frequentHans, Big5: frequentHant, EUCKR: frequentHangul,
		ShiftJIS: frequentKanji, EUCJP: frequentKanji}[e] {
		known[r] = true
	}
	weak := 0 // since the last ASCII
	for at := 0; at < len(data); {
		r, n := e.unit(data[at:])
		unit := data[at : at+n]
		at += n
		switch {
		case r < 0x80:
			p.weak, weak = p.weak+max(weak, 0), 0
			continue
		case r == utf8.RuneError:
			p.invalid++
			continue
		}
		p.units++
		kana := 0x3040 <= r && r < 0x3100
		if n == 2 && unit[1] < 0x80 && !kana && weak >= 0 {
			weak++
		} else {
			weak = -1
		}
		if e.usual(unit) && (!kana || e >= ShiftJIS) {
			p.usual++
		}
		if kana && e >= ShiftJIS || known[r] {
			p.frequent++
		}
	}
	p.weak += max(weak, 0)
	return p
}

// usual reports whether a character is in the part of the encoding that ordinary texts use: the first level of its
// standard, and punctuation.
func (e Encoding) usual(unit []byte) bool {
	if len(unit) != 2 {
		return false
	}
	lead, trail := unit[0], unit[1]
	switch e {
	case GBK:
		return trail >= 0xa1 && (0xa1 <= lead && lead <= 0xa3 || 0xb0 <= lead && lead <= 0xd7)
	case Big5:
		return 0xa1 <= lead && lead <= 0xc6
	case EUCKR:
		return trail >= 0xa1 && (0xa1 <= lead && lead <= 0xa3 || 0xb0 <= lead && lead <= 0xc8)
	case ShiftJIS:
		return 0x81 <= lead && lead <= 0x84 || 0x87 <= lead && lead <= 0x97
	}
	return trail >= 0xa1 && (0xa1 <= lead && lead <= 0xa8 || 0xad <= lead && lead <= 0xcf)
}

// Guess returns the encoding that a text which is not valid UTF-8 probably has. It looks for Chinese, Japanese, Korean,
// Russian and Greek, and otherwise takes the text for western European, in which every byte has a meaning.
func Guess(data []byte) Encoding {
	if len(data) > MaxGuess {
		data = data[:MaxGuess]
		if end := bytes.LastIndexByte(data, '\n'); end > 0 {
			data = data[:end] // no character is cut
		}
	}
	if mostlyUTF8(data) {
		return MixedUTF8
	}
	best, score := UTF8, 0.0
	for e := firstCJK; e <= lastCJK; e++ {
		p := e.cjkPlausibility(data)
		ordinary := p.usual*20 >= p.units*17 || e == GBK && p.frequent*4 >= p.units // GBK also has traditional forms
		if p.units < 2 || p.invalid*50 > p.units || !ordinary || p.weak*2 > p.units {
			continue
		}
		if s := float64(p.usual+4*p.frequent) / float64(p.units); s > score {
			best, score = e, s
		}
	}
	if best == GBK && hasFour(data) {
		return GB18030
	}
	if best != UTF8 {
		return best
	}
	high, long := runs(data)
	if long*10 < high*6 || western(data) {
		return eightBit(data)
	}
	best, most := EightBit(data), high/2
	for _, c := range []struct {
		e       Encoding
		letters string
	}{{Windows1251, frequentUkrain}, {KOI8R, frequentRussian}, {KOI8U, frequentUkrain}, {IBM866, frequentRussian},
		{Windows1253, frequentGreek}, {Windows1255, frequentHebrew}, {Windows1256, frequentArabic}, {Windows874, frequentThai}} {
		e, letters := c.e, c.letters
		n, seen := 0, map[byte]bool{}
		for _, b := range data {
			if b >= 0x80 && strings.ContainsRune(letters, e.table().DecodeByte(b)) {
				n, seen[b] = n+1, true
			}
		}
		if n > most && len(seen) > 2 {
			best, most = e, n
		}
	}
	return best
}

// hasFour reports whether a text of GBK has characters of four bytes.
func hasFour(data []byte) bool {
	for len(data) > 0 {
		_, n := GBK.unit(data)
		if n == 4 {
			return true
		}
		data = data[n:]
	}
	return false
}

// mostlyUTF8 reports whether more characters of a text are valid UTF-8 than invalid.
func mostlyUTF8(data []byte) bool {
	valid, invalid := 0, 0
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		if r == utf8.RuneError && size == 1 {
			invalid++
		} else if size > 1 {
			valid++
		}
		data = data[size:]
	}
	return valid > invalid
}

// runs returns the number of bytes that are not ASCII, and of those with two others beside them: western European words
// hardly have three accented letters in a row.
func runs(data []byte) (high, long int) {
	run := 0
	for i := 0; i <= len(data); i++ {
		if i < len(data) && data[i] >= 0x80 {
			run++
			continue
		}
		if high += run; run >= 3 {
			long += run
		}
		run = 0
	}
	return high, long
}
