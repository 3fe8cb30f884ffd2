package extract

import (
	"io/fs"

	"golang.org/x/sys/windows"
)

const noFollow = 0 // O_EXCL only creates files, so it never follows a link

// own makes a newly created directory, and its future content, private to the user.
func own(dir string) error {
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return err
	}
	sd, err := windows.SecurityDescriptorFromString("D:P(A;OICI;FA;;;" + user.User.Sid.String() + ")")
	if err != nil {
		return err
	}
	dacl, _, err := sd.DACL()
	if err != nil {
		return err
	}
	return windows.SetNamedSecurityInfo(dir, windows.SE_FILE_OBJECT,
		windows.DACL_SECURITY_INFORMATION|windows.PROTECTED_DACL_SECURITY_INFORMATION, nil, nil, dacl, nil)
}

// private always returns nil: it relies on own, because on Windows a mode does not tell who
// has access.
func private(fs.FileInfo, string) error { return nil }
