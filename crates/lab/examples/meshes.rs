//! Writes random meshes as scenario files: `meshes FIRST COUNT FOLDER`, one of each kind in turn.

use std::path::PathBuf;

use fairmesh_lab::study::families::Times;
use fairmesh_lab::study::meshes::meshes;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [first, count, folder] = &given[..] else {
        return Err("expected: meshes FIRST COUNT FOLDER, such as meshes 100 6 /tmp/meshes".into());
    };
    let folder = PathBuf::from(folder);
    std::fs::create_dir_all(&folder)?;
    let times = Times { duration_s: 120, warmup_s: 60 };
    for mesh in meshes(first.parse()?, count.parse()?, times)? {
        let file = folder.join(format!("{}.toml", mesh.name));
        std::fs::write(&file, &mesh.text)?;
        println!("{}: {}", file.display(), mesh.about);
    }
    Ok(())
}
